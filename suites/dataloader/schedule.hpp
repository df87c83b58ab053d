#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace misfire::dataloader {

/// Which worker makes which batch, and which finished batch is delivered next. No clock, no process: the same for worker
/// processes and threads, and tested by itself.
///
/// @source torch.utils.data.DataLoader: at most num_workers x prefetch_factor batches outstanding; batch i to worker i mod
///         num_workers; in_order holds finished batches back until their turn. Here rotation is strict without order too;
///         torch 2.6 then passes over workers that have their share, which lies between rotation and by_demand.
class Schedule {
 public:
  struct Options {
    int workers = 1;
    int prefetch_factor = 2;
    bool in_order = true;
    bool by_demand = false;  ///< to the worker with the fewest batches outstanding, instead of in rotation
  };
  struct Assignment {
    std::uint32_t batch;
    int worker;
  };

  explicit Schedule(const Options& options) : options_(options), outstanding_(static_cast<std::size_t>(options.workers)) {}

  /// A new epoch: batches `first` to `first + count - 1`. For streams of unknown length count is the greatest possible.
  void begin(std::uint32_t first, std::uint64_t count);
  /// The next assignment, if one may be made now. Call until it returns nothing.
  std::optional<Assignment> assign();
  /// How a worker's work on a batch ended.
  enum class Finish {
    made,
    lost,   ///< an error instead of a batch: nothing is delivered for it
    ended,  ///< the worker's stream has ended: nothing is delivered for it, and the worker gets no more
  };
  void finished(std::uint32_t batch, Finish how);
  /// The batch to deliver now, if one is ready in its turn.
  std::optional<std::uint32_t> deliver();
  /// Finished batches that only order keeps back: one before them is still being made.
  std::size_t held() const noexcept;
  /// Batches assigned and not yet delivered.
  std::size_t outstanding() const noexcept { return in_flight_.size(); }
  /// Every batch was delivered.
  bool done() const noexcept;
  int worker_of(std::uint32_t batch) const;

 private:
  Options options_;
  std::uint64_t next_ = 0, end_ = 0;
  int rotation_ = 0;
  std::vector<int> outstanding_;            ///< batches at each worker
  std::vector<bool> ended_;                 ///< workers whose stream has ended
  std::map<std::uint32_t, int> in_flight_;  ///< assigned and not delivered -> worker
  std::map<std::uint32_t, bool> ready_;     ///< finished -> there is something to deliver
  std::deque<std::uint32_t> arrival_;       ///< ready ones in the order they came
};

}  // namespace misfire::dataloader
