#include "suites/dataloader/schedule.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/check.hpp"

namespace misfire::dataloader {
namespace {

/// Workers in simulated time: each makes its batches one after the other.
struct Run {
  std::vector<std::uint32_t> delivered;
  std::vector<int> made_by;  ///< by batch
  std::vector<double> work;  ///< time that each worker worked
  double end = 0;
  std::size_t most_outstanding = 0, most_held = 0;
};

/// @param cost  of a batch, by number
template <class Cost>
Run simulate(const Schedule::Options& options, std::uint64_t batches, Cost&& cost, std::uint32_t first = 0) {
  Schedule schedule(options);
  schedule.begin(first, batches);
  Run run;
  run.made_by.assign(first + batches, -1);
  run.work.assign(static_cast<std::size_t>(options.workers), 0);
  std::vector<double> free_at(static_cast<std::size_t>(options.workers), 0);
  std::set<std::pair<double, std::uint32_t>> finishing;
  double now = 0;
  const auto assign = [&] {
    while (const auto given = schedule.assign()) {
      const auto worker = static_cast<std::size_t>(given->worker);
      run.made_by[given->batch] = given->worker;
      free_at[worker] = std::max(free_at[worker], now) + cost(given->batch);
      run.work[worker] += cost(given->batch);
      finishing.emplace(free_at[worker], given->batch);
    }
    run.most_outstanding = std::max(run.most_outstanding, schedule.outstanding());
  };
  assign();
  while (!schedule.done()) {
    while (const auto batch = schedule.deliver()) {
      run.delivered.push_back(*batch);
      assign();
    }
    if (finishing.empty()) break;
    now = finishing.begin()->first;
    schedule.finished(finishing.begin()->second, Schedule::Finish::made);
    finishing.erase(finishing.begin());
    run.most_held = std::max(run.most_held, schedule.held());
    assign();
  }
  run.end = now;
  return run;
}

std::vector<std::uint32_t> counting(std::uint32_t first, std::uint32_t count) {
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST("every batch is delivered once and in order, whatever the costs") {
  for (const int workers : {1, 2, 3, 7})
    for (const int prefetch : {1, 2, 5})
      for (const bool by_demand : {false, true}) {
        const Run run = simulate(
            {workers, prefetch, true, by_demand}, 40, [](std::uint32_t batch) { return 1.0 + batch * 7 % 5; }, 10);
        CHECK(run.delivered == counting(10, 40));
        CHECK(run.most_outstanding <= static_cast<std::size_t>(workers * prefetch));
      }
}

TEST("unordered delivery is a permutation, and holds nothing back") {
  const auto cost = [](std::uint32_t batch) { return batch == 0 ? 100.0 : 1.0; };
  const Run ordered = simulate({2, 4, true, false}, 20, cost), unordered = simulate({2, 4, false, false}, 20, cost);
  CHECK(ordered.most_held >= 4);  // those of the other worker, behind the slow first one
  CHECK_EQ(unordered.most_held, 0U);
  CHECK_EQ(unordered.delivered.front(), 1U);
  auto sorted = unordered.delivered;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == counting(0, 20));
}

TEST("round robin gives batch i to worker i mod workers") {
  const Run run = simulate({3, 2, true, false}, 30, [](std::uint32_t) { return 1.0; });
  for (std::size_t batch = 0; batch < 30; ++batch) CHECK_EQ(run.made_by[batch], static_cast<int>(batch % 3));
}

TEST("a slow period that the rotation divides falls on one worker, by demand on all") {
  const auto every_fourth = [](std::uint32_t batch) { return batch % 4 == 0 ? 10.0 : 1.0; };
  const Run rotation = simulate({4, 2, true, false}, 80, every_fourth);
  CHECK_EQ(rotation.work[0], 200.0);
  CHECK_EQ(rotation.work[1], 20.0);
  CHECK_EQ(rotation.end, 200.0);  // worker 0 alone sets the pace
  const Run demand = simulate({4, 2, false, true}, 80, every_fourth);
  CHECK(*std::max_element(demand.work.begin(), demand.work.end()) < 100);
  CHECK(demand.end < 100);
  // A period that shares no factor with the workers falls on all of them in rotation too.
  const Run coprime = simulate({4, 2, true, false}, 80, [](std::uint32_t batch) { return batch % 5 == 0 ? 10.0 : 1.0; });
  CHECK_EQ(*std::max_element(coprime.work.begin(), coprime.work.end()),
           *std::min_element(coprime.work.begin(), coprime.work.end()));
}

TEST("by demand a worker never has more than its prefetch, in rotation it may") {
  Schedule demand({2, 2, false, true});
  demand.begin(0, 100);
  std::vector<int> given(2);
  while (const auto assignment = demand.assign()) ++given[static_cast<std::size_t>(assignment->worker)];
  CHECK(given == (std::vector<int>{2, 2}));
  // Worker 1 finishes everything it gets; worker 0 nothing.
  for (int i = 0; i < 10; ++i) {
    for (std::uint32_t batch = 0; batch < 100; ++batch) {
      try {
        if (demand.worker_of(batch) != 1) continue;
      } catch (const std::out_of_range&) {
        continue;
      }
      demand.finished(batch, Schedule::Finish::made);
      CHECK_EQ(demand.deliver().value_or(999), batch);
      break;
    }
    const auto next = demand.assign();
    CHECK(next && next->worker == 1);
    CHECK(!demand.assign());
  }
}

TEST("only what order keeps back is held") {
  Schedule schedule({2, 2, true, false});
  schedule.begin(0, 4);
  while (schedule.assign()) {
  }
  schedule.finished(1, Schedule::Finish::made);
  schedule.finished(3, Schedule::Finish::made);
  CHECK_EQ(schedule.held(), 2U);
  CHECK(!schedule.deliver());
  schedule.finished(0, Schedule::Finish::made);
  CHECK_EQ(schedule.held(), 0U);  // there is one to deliver: nobody waits
  CHECK_EQ(schedule.deliver().value_or(9), 0U);
  CHECK_EQ(schedule.deliver().value_or(9), 1U);
  CHECK_EQ(schedule.held(), 1U);
  schedule.finished(2, Schedule::Finish::made);
  CHECK_EQ(schedule.deliver().value_or(9), 2U);
  CHECK_EQ(schedule.deliver().value_or(9), 3U);
  CHECK_EQ(schedule.held(), 0U);
}

TEST("a batch lost to an error is passed over, and its worker goes on") {
  for (const bool in_order : {true, false}) {
    Schedule schedule({2, 1, in_order, false});
    schedule.begin(0, 4);
    while (schedule.assign()) {
    }
    schedule.finished(0, Schedule::Finish::lost);
    CHECK(!schedule.deliver());
    const auto next = schedule.assign();
    CHECK(next && next->batch == 2 && next->worker == 0);
    schedule.finished(1, Schedule::Finish::made);
    CHECK_EQ(schedule.deliver().value_or(9), 1U);
    CHECK(schedule.assign());
    schedule.finished(2, Schedule::Finish::made);
    schedule.finished(3, Schedule::Finish::lost);
    CHECK_EQ(schedule.deliver().value_or(9), 2U);
    CHECK(!schedule.deliver());
    CHECK(schedule.done());
  }
}

TEST("a stream ends worker by worker, and the epoch with the last") {
  Schedule schedule({2, 2, true, false});
  schedule.begin(0, 1'000'000);
  std::vector<Schedule::Assignment> given;
  while (const auto assignment = schedule.assign()) given.push_back(*assignment);
  CHECK_EQ(given.size(), 4U);
  schedule.finished(0, Schedule::Finish::ended);  // worker 0 has nothing at all
  CHECK(!schedule.deliver());
  schedule.finished(1, Schedule::Finish::made);
  CHECK_EQ(schedule.deliver().value_or(99), 1U);
  while (const auto assignment = schedule.assign()) {
    CHECK_EQ(assignment->worker, 1);
    given.push_back(*assignment);
  }
  CHECK(!schedule.done());
  schedule.finished(2, Schedule::Finish::ended);
  schedule.finished(3, Schedule::Finish::made);
  CHECK_EQ(schedule.deliver().value_or(99), 3U);
  for (std::size_t i = 4; i < given.size(); ++i) schedule.finished(given[i].batch, Schedule::Finish::ended);
  CHECK(!schedule.assign());
  CHECK(!schedule.deliver());
  CHECK(schedule.done());
}

TEST("an epoch without batches is done at once, and the next one starts afresh") {
  Schedule schedule({2, 2, true, false});
  schedule.begin(5, 0);
  CHECK(!schedule.assign());
  CHECK(schedule.done());
  schedule.begin(5, 1);
  CHECK(!schedule.done());
  const auto given = schedule.assign();
  CHECK(given && given->batch == 5 && given->worker == 0);
  schedule.finished(5, Schedule::Finish::made);
  CHECK_EQ(schedule.deliver().value_or(0), 5U);
  CHECK(schedule.done());
}

}  // namespace
}  // namespace misfire::dataloader
