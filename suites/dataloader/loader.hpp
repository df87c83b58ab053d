#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "suites/dataloader/pool.hpp"
#include "suites/dataloader/schedule.hpp"
#include "suites/dataloader/worker.hpp"

namespace misfire::dataloader {

/// A delivered batch; its memory is valid, and not used again, while this object lives, which may be longer than its loader.
/// Belongs to the loader's thread.
class Batch {
 public:
  Batch(Batch&& other) noexcept { *this = std::move(other); }
  Batch& operator=(Batch&& other) noexcept;
  ~Batch();
  std::uint32_t number = 0;
  int worker = -1;                     ///< -1: the consumer
  std::vector<std::int32_t> labels;    ///< [n]
  std::vector<std::uint32_t> indices;  ///< [n]
  /// u8 [n, 224, 224, 3]
  std::span<const std::uint8_t> images() const noexcept { return images_; }

 private:
  friend class Loader;
  Batch() = default;
  std::span<const std::uint8_t> images_;
  Segment segment_;               ///< fresh memory
  std::shared_ptr<Slots> slots_;  ///< pooled memory
  int slot_ = -1;
};

/// Delivers batches of a dataset, made by worker processes or threads, or by the consumer itself.
///
/// Order of calls: start() once, before the process has threads; for each epoch begin_epoch(), next() until it returns nothing,
/// end_epoch(). An epoch may be left half-way, by choice or by an exception: what is still being made for it is waited for
/// (persistent workers) or ended with its workers, and after a worker's death begin_epoch() starts new ones. The thread that
/// calls must live as long as the workers: the kernel ends them with the thread that forked them.
///
/// @throws WorkerDied; Error{no_space} when shared memory could not be reserved; Error{invalid_input} for a refused sample or a
/// worker's trouble; Error{io} after `timeout`; Error{usage} when the consumer keeps more batches than it said
class Loader {
 public:
  /// @param description  of the dataset, for start_method spawn
  /// @throws Error{invalid_input} for options that contradict each other
  Loader(const LoaderOptions& options, const Dataset& dataset, Seed seed, Recorder& recorder, Lane& lane,
         int recorder_descriptor = -1, Json description = Json::object());
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  void start();
  void begin_epoch(int epoch);
  std::optional<Batch> next();
  void end_epoch();
  void stop();
  const LoaderOptions& options() const noexcept { return options_; }
  /// Pooled batch memory; empty for fresh segments.
  std::span<const std::uint8_t> pool() const noexcept { return slots_ ? slots_->memory().bytes() : std::span<std::uint8_t>(); }

 private:
  void assign();
  void abandon();
  void take(Made made);
  Task next_task(std::uint32_t batch);
  std::optional<Batch> make_next();
  Batch deliver(Made made);
  void release(int slot) {
    if (slot >= 0) slots_->release(slot);
  }
  /// As WorkerPool::receive wants it.
  Duration patience() const { return options_.timeout > Duration::zero() ? options_.timeout : Duration(-1); }

  LoaderOptions options_;
  const Dataset& dataset_;
  Seed seed_;
  Lane& lane_;
  std::shared_ptr<Slots> slots_;  ///< null for fresh segments
  std::unique_ptr<WorkerPool> workers_;
  std::unique_ptr<BatchMaker> own_;  ///< num_workers 0
  Schedule schedule_;
  std::vector<std::vector<std::size_t>> batches_;
  std::map<std::uint32_t, int> asked_;      ///< batches that workers have been asked for and not answered -> slot
  std::map<std::uint32_t, Made> finished_;  ///< answered and not delivered
  int epoch_ = 0;
  std::uint32_t first_batch_ = 0, next_batch_ = 0;
};

}  // namespace misfire::dataloader
