#include "suites/dataloader/schedule.hpp"

#include <algorithm>

#include "harness/error.hpp"

namespace misfire::dataloader {

void Schedule::begin(std::uint32_t first, std::uint64_t count) {
  next_ = first;
  end_ = first + count;
  rotation_ = 0;
  std::fill(outstanding_.begin(), outstanding_.end(), 0);
  ended_.assign(outstanding_.size(), false);
  in_flight_.clear();
  ready_.clear();
  arrival_.clear();
}

std::optional<Schedule::Assignment> Schedule::assign() {
  if (next_ >= end_ || std::all_of(ended_.begin(), ended_.end(), [](bool ended) { return ended; })) return std::nullopt;
  const auto bound = static_cast<std::size_t>(options_.workers) * static_cast<std::size_t>(options_.prefetch_factor);
  if (in_flight_.size() >= bound) return std::nullopt;
  int chosen = -1;
  if (options_.by_demand) {
    for (int worker = 0; worker < options_.workers; ++worker) {
      const auto i = static_cast<std::size_t>(worker);
      if (!ended_[i] && (chosen < 0 || outstanding_[i] < outstanding_[static_cast<std::size_t>(chosen)])) chosen = worker;
    }
    if (outstanding_[static_cast<std::size_t>(chosen)] >= options_.prefetch_factor) return std::nullopt;
  } else {
    while (ended_[static_cast<std::size_t>(rotation_)]) rotation_ = (rotation_ + 1) % options_.workers;
    chosen = rotation_;
    rotation_ = (rotation_ + 1) % options_.workers;
  }
  const auto batch = static_cast<std::uint32_t>(next_++);
  ++outstanding_[static_cast<std::size_t>(chosen)];
  in_flight_[batch] = chosen;
  return Assignment{batch, chosen};
}

void Schedule::finished(std::uint32_t batch, Finish how) {
  const auto found = in_flight_.find(batch);
  MISFIRE_ASSERT(found != in_flight_.end() && !ready_.contains(batch));
  --outstanding_[static_cast<std::size_t>(found->second)];
  if (how == Finish::ended) ended_[static_cast<std::size_t>(found->second)] = true;
  ready_[batch] = how == Finish::made;
  arrival_.push_back(batch);
}

std::optional<std::uint32_t> Schedule::deliver() {
  while (!arrival_.empty()) {
    std::uint32_t batch = arrival_.front();
    if (options_.in_order) {
      batch = in_flight_.begin()->first;  // the lowest number that was assigned and not delivered
      if (!ready_.contains(batch)) return std::nullopt;
    }
    const bool something = ready_.at(batch);
    ready_.erase(batch);
    in_flight_.erase(batch);
    arrival_.erase(std::find(arrival_.begin(), arrival_.end(), batch));
    if (something) return batch;
  }
  return std::nullopt;
}

std::size_t Schedule::held() const noexcept {
  if (!options_.in_order || ready_.empty() || ready_.contains(in_flight_.begin()->first)) return 0;
  return static_cast<std::size_t>(std::count_if(ready_.begin(), ready_.end(), [](const auto& r) { return r.second; }));
}

bool Schedule::done() const noexcept {
  const bool all_ended = !ended_.empty() && std::all_of(ended_.begin(), ended_.end(), [](bool ended) { return ended; });
  return in_flight_.empty() && (next_ >= end_ || all_ended);
}

int Schedule::worker_of(std::uint32_t batch) const { return in_flight_.at(batch); }

}  // namespace misfire::dataloader
