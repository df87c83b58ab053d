#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "suites/dataloader/pool.hpp"
#include "suites/dataloader/schedule.hpp"
#include "suites/dataloader/worker.hpp"

namespace misfire::dataloader {

class Loader;

/// A delivered batch; its memory is valid, and not used again, while this object lives.
class Batch {
 public:
  Batch(Batch&& other) noexcept;
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
  Segment segment_;  ///< fresh memory
  Loader* loader_ = nullptr;
  int slot_ = -1;  ///< pooled memory
};

/// Delivers batches of a dataset, made by worker processes or threads, or by the consumer itself.
///
/// Order of calls: start() once, before the process has threads; for each epoch begin_epoch(), next() until it returns nothing,
/// end_epoch(). @throws WorkerDied; Error{no_space} when shared memory could not be reserved; Error{invalid_input} for a refused
/// sample or a worker's trouble; Error{io} after `timeout`
class Loader {
 public:
  /// @param description  of the dataset, for start_method spawn
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
  std::span<const std::uint8_t> pool() const noexcept { return slots_.bytes(); }

 private:
  friend class Batch;
  void assign();
  void take(Made made);
  Batch deliver(Made made);
  void release(int slot) { free_slots_.push_back(slot); }

  LoaderOptions options_;
  const Dataset& dataset_;
  Seed seed_;
  Lane& lane_;
  Segment slots_;
  std::size_t slot_bytes_ = 0;
  std::vector<int> free_slots_;
  std::unique_ptr<WorkerPool> workers_;
  std::unique_ptr<BatchMaker> own_;  ///< num_workers 0
  Schedule schedule_;
  std::vector<std::vector<std::size_t>> batches_;
  std::map<std::uint32_t, Made> finished_;
  int epoch_ = 0;
  std::uint32_t first_batch_ = 0, next_batch_ = 0;
};

}  // namespace misfire::dataloader
