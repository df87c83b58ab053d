// Metrics computed from traces made by hand.
//
// Goal: each metric that a signature uses shows its failure and stays silent on its look-alike, without timing anything.

#include "suites/dataloader/metrics.hpp"

#include <algorithm>

#include "suites/dataloader/sites.hpp"
#include "tests/check.hpp"

using namespace misfire;
using namespace misfire::dataloader;

namespace {

constexpr std::int64_t ms = 1'000'000;
constexpr int consumer = 2;

/// Builds a trace; times in milliseconds.
struct Script {
  Trace trace;
  Script() {
    trace.subject_pid = consumer;
    trace.outcome.kind = "ok";
    trace.notes.emplace_back("machine_cpus", Json(2));
  }
  void add(const Site& where, EventKind kind, double at, std::uint32_t tag, int pid, double value = 0) {
    trace.events.push_back({static_cast<std::int64_t>(at * ms), where.id, kind, tag, value, pid, pid});
  }
  void span(const Site& where, double from, double to, std::uint32_t tag, int pid) {
    add(where, EventKind::begin, from, tag, pid);
    add(where, EventKind::end, to, tag, pid);
  }
  /// A batch made by a worker (or the consumer), waited for and delivered.
  void batch(std::uint32_t number, int worker, int pid, double load_from, double load_to, double wait_from, double wait_to) {
    span(site::load, load_from, load_to, number, pid);
    span(site::wait, wait_from, wait_to, number, consumer);
    add(site::made_by, EventKind::sample, wait_to, number, consumer, worker);
    for (int i = 0; i < 4; ++i) add(site::delivered, EventKind::sample, wait_to, number, consumer, number * 4.0 + i);
  }
  void workers(std::initializer_list<int> pids) {
    std::uint32_t slot = 0;
    for (const int pid : pids) add(site::worker_start, EventKind::mark, 0, slot++, pid);
  }
  ProcessSnapshot& sees(Observation& observation, int pid, std::vector<int> cpus) {
    ProcessSnapshot process;
    process.pid = pid;
    process.state = 'R';
    process.cpus_allowed = std::move(cpus);
    observation.processes.push_back(process);
    return observation.processes.back();
  }
  std::vector<Metric> metrics() {
    std::stable_sort(trace.events.begin(), trace.events.end(),
                     [](const Event& a, const Event& b) { return a.monotonic_ns < b.monotonic_ns; });
    missing.clear();
    return analyse(trace, missing);
  }
  double number(std::string_view name) {
    for (const Metric& metric : metrics())
      if (metric.name == name) return metric.number();
    return -1;
  }
  bool lacks(std::string_view name) {
    metrics();
    return std::any_of(missing.begin(), missing.end(), [&](const auto& entry) { return entry.first == name; });
  }
  std::vector<std::pair<std::string, std::string>> missing;
};

TEST("every metric is measured or missing with a reason, exactly once, on an empty trace") {
  Script script;
  const auto found = script.metrics();
  for (const MetricInfo& info : metrics()) {
    const auto measured = std::count_if(found.begin(), found.end(), [&](const Metric& m) { return m.name == info.name; });
    const auto missing =
        std::count_if(script.missing.begin(), script.missing.end(), [&](const auto& m) { return m.first == info.name; });
    CHECK_EQ(measured + missing, 1);
  }
}

TEST("a consumer that loads for itself never overlaps the device") {
  Script script;
  script.span(site::epoch, 0, 40, 0, consumer);
  script.batch(0, -1, consumer, 0, 10, 0, 10);
  script.span(site::device, 10, 20, 0, consumer + 1);
  script.batch(1, -1, consumer, 20, 30, 20, 30);
  script.span(site::device, 30, 40, 1, consumer + 1);
  CHECK_NEAR(script.number("overlap_fraction"), 0.0, 1e-9);
  CHECK_NEAR(script.number("consumer_load_fraction"), 1.0, 1e-9);
  CHECK_NEAR(script.number("data_wait_fraction"), 0.5, 1e-9);
  CHECK_NEAR(script.number("step_seconds"), 0.020, 1e-9);
  CHECK_NEAR(script.number("busy_max_over_mean"), 1.0, 1e-9);
}

TEST("a worker's loading overlaps the device") {
  Script script;
  script.workers({7});
  script.span(site::epoch, 0, 40, 0, consumer);
  script.batch(0, 0, 7, 0, 10, 0, 10);
  script.span(site::device, 10, 20, 0, consumer + 1);
  script.batch(1, 0, 7, 10, 20, 20, 20.1);
  CHECK_NEAR(script.number("overlap_fraction"), 1.0, 1e-9);
  CHECK_NEAR(script.number("consumer_load_fraction"), 0.0, 1e-9);
}

TEST("waiting while finished batches are held counts; waiting with nothing ready does not") {
  Script held;
  held.workers({7, 8});
  held.span(site::epoch, 0, 100, 0, consumer);
  held.batch(0, 0, 7, 0, 5, 0, 5);
  held.batch(1, 1, 8, 0, 10, 5, 10);
  held.batch(2, 0, 7, 10, 90, 10, 90);    // slow
  held.batch(3, 1, 8, 10, 20, 90, 90.1);  // finished at 20, kept back for 70 ms
  CHECK_NEAR(held.number("held_wait_fraction"), 0.695, 0.01);
  CHECK_NEAR(held.number("longest_held_wait_over_load"), 6.95, 0.1);

  Script late;  // a worker that starts late is waited for, not held up by order
  late.workers({7, 8});
  late.span(site::epoch, 0, 100, 0, consumer);
  late.batch(0, 0, 7, 70, 80, 0, 80);
  late.batch(1, 1, 8, 0, 10, 80, 80.1);
  CHECK_NEAR(late.number("held_wait_fraction"), 0.0, 0.01);

  Script idle;
  idle.workers({7, 8});
  idle.span(site::epoch, 0, 100, 0, consumer);
  idle.batch(0, 0, 7, 0, 80, 0, 80);
  idle.batch(1, 1, 8, 0, 80, 80, 80.1);
  CHECK_NEAR(idle.number("held_wait_fraction"), 0.0, 1e-6);
}

TEST("strict rotation and the one busy worker are seen from who made what") {
  Script script;
  script.workers({7, 8});
  script.span(site::epoch, 0, 200, 0, consumer);
  for (std::uint32_t i = 0; i < 4; ++i)
    script.batch(i, static_cast<int>(i % 2), i % 2 ? 8 : 7, i * 40, i * 40 + (i % 2 ? 4 : 36), i * 40, i * 40 + 38);
  CHECK_NEAR(script.number("round_robin_fraction"), 1.0, 1e-9);
  CHECK_NEAR(script.number("busy_max_over_mean"), 1.8, 1e-9);
  CHECK_NEAR(script.number("in_order_fraction"), 1.0, 1e-9);

  Script demand;
  demand.workers({7, 8});
  demand.span(site::epoch, 0, 200, 0, consumer);
  for (std::uint32_t i = 0; i < 4; ++i) demand.batch(i, i == 0 ? 0 : 1, i == 0 ? 7 : 8, i * 40, i * 40 + 10, i * 40, i * 40 + 38);
  CHECK_NEAR(demand.number("round_robin_fraction"), 0.75, 1e-9);
}

TEST("worker generations are counted by process id") {
  Script kept;
  kept.workers({7, 8});
  CHECK_NEAR(kept.number("worker_generations"), 1.0, 1e-9);
  Script rebuilt;
  rebuilt.workers({7, 8});
  rebuilt.workers({9, 10});
  CHECK_NEAR(rebuilt.number("worker_generations"), 2.0, 1e-9);
}

TEST("copies of every sample and idle workers are faults of the shard plan; padding is not") {
  Script doubled;
  doubled.workers({7, 8});
  doubled.span(site::epoch, 0, 100, 0, consumer);
  for (const int worker : {0, 1})
    for (int i = 0; i < 4; ++i) {
      doubled.add(site::delivered, EventKind::sample, 10, static_cast<std::uint32_t>(worker), consumer, i);
      doubled.add(site::made_by, EventKind::sample, 10, static_cast<std::uint32_t>(worker), consumer, worker);
    }
  CHECK_NEAR(doubled.number("sample_multiplicity_min"), 2.0, 1e-9);
  CHECK_NEAR(doubled.number("shard_plan_faults"), 1.0, 1e-9);

  Script padded;
  padded.workers({7});
  padded.span(site::epoch, 0, 100, 0, consumer);
  padded.batch(0, 0, 7, 0, 1, 0, 1);
  padded.add(site::delivered, EventKind::sample, 1, 0, consumer, 0);  // one sample twice
  CHECK_NEAR(padded.number("sample_multiplicity_max"), 2.0, 1e-9);
  CHECK_NEAR(padded.number("shard_plan_faults"), 0.0, 1e-9);

  Script starved;
  starved.workers({7, 8});
  starved.span(site::epoch, 0, 100, 0, consumer);
  starved.batch(0, 0, 7, 0, 1, 0, 1);
  CHECK_NEAR(starved.number("idle_workers"), 1.0, 1e-9);
  CHECK_NEAR(starved.number("shard_plan_faults"), 1.0, 1e-9);
}

TEST("masks of workers that coincide are seen; distinct ones are not flagged") {
  Script narrow;
  narrow.workers({7, 8});
  Observation seen;
  seen.monotonic_ns = 1;
  narrow.sees(seen, consumer, {0});
  narrow.sees(seen, 7, {0});
  narrow.sees(seen, 8, {0});
  narrow.trace.observations.push_back(seen);
  CHECK_NEAR(narrow.number("worker_cpus_fraction"), 0.5, 1e-9);
  CHECK_NEAR(narrow.number("worker_processes"), 2.0, 1e-9);
  CHECK_NEAR(narrow.number("subject_cpus_allowed"), 1.0, 1e-9);

  Script wide;
  wide.workers({7, 8});
  Observation both;
  wide.sees(both, consumer, {0, 1});
  wide.sees(both, 7, {0});
  wide.sees(both, 8, {1});
  wide.trace.observations.push_back(both);
  CHECK_NEAR(wide.number("worker_cpus_fraction"), 1.0, 1e-9);
}

TEST("private pages of the table count against its size, and only in workers") {
  Script script;
  script.workers({7, 8});
  Observation look;
  look.label = "epoch_end";
  script.sees(look, consumer, {0, 1}).regions.push_back({"table", 1000, 999, {}});
  script.sees(look, 7, {0, 1}).regions.push_back({"table", 1000, 500, {}});
  script.sees(look, 8, {0, 1}).regions.push_back({"table", 1000, 300, {}});
  script.trace.observations.push_back(look);
  CHECK_NEAR(script.number("table_private_fraction"), 0.8, 1e-9);
  CHECK_NEAR(script.number("table_resident_bytes"), 1000.0, 1e-9);
  CHECK(script.lacks("remote_page_fraction"));
}

TEST("shared memory is judged at the moment of a worker's death") {
  Script script;
  Observation early, death;
  early.shm_total_bytes = death.shm_total_bytes = 100;
  early.shm_used_bytes = 100;
  death.shm_used_bytes = 3;
  death.label = "worker_died";
  script.trace.observations = {early, death};
  script.add(site::worker_died, EventKind::sample, 5, 1, consumer, 7);
  CHECK_NEAR(script.number("shm_used_fraction"), 0.03, 1e-9);
  CHECK_NEAR(script.number("worker_signal"), 7.0, 1e-9);
}

TEST("a span that a dead process left open lasts until the trace ends") {
  Script script;
  script.workers({7, 8});
  script.span(site::epoch, 0, 50, 0, consumer);
  script.add(site::load, EventKind::begin, 10, 0, 7);
  CHECK_NEAR(script.number("busy_max_over_mean"), 2.0, 1e-9);
  CHECK(script.lacks("load_seconds"));
}

}  // namespace
