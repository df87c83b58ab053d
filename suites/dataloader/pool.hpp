#pragma once

#include <memory>
#include <optional>

#include "suites/dataloader/death.hpp"
#include "suites/dataloader/worker.hpp"

namespace misfire::dataloader {

/// The workers of a loader, whatever they are made of.
class WorkerPool {
 public:
  virtual ~WorkerPool() = default;
  /// Before any thread exists: what must be forked early (the fork server) is.
  virtual void prepare() {}
  /// Starts the workers, anew if there were some.
  virtual void start() = 0;
  /// Ends them; what they were asked for and have not begun is forgotten.
  virtual void stop() = 0;
  /// All of them live, as far as is known.
  virtual bool running() const = 0;
  /// Never blocks, however much is queued. @throws WorkerDied
  virtual void send(int worker, const Task& task) = 0;
  /// The next finished batch of any worker; nothing when `timeout` passed (0: look only; negative: wait for ever).
  /// @throws WorkerDied as soon as one ended, whatever the others have finished, and again until the pool is stopped
  virtual std::optional<Made> receive(Duration timeout) = 0;
};

/// What a pool is made with.
struct PoolSetup {
  const Dataset& dataset;
  const LoaderOptions& options;
  Seed seed{0};
  Recorder recorder = {};
  int recorder_descriptor = -1;
  const Slots* slots = nullptr;  ///< shared with the workers; null for fresh segments
  std::shared_ptr<const Topology> topology = topology_for(options);
  Json description = Json::object();  ///< of the dataset, for start_method spawn
  std::span<std::uint8_t> memory_of(const Task& task) const {
    return slots && task.slot >= 0 ? slots->bytes(task.slot) : std::span<std::uint8_t>();
  }
};

std::unique_ptr<WorkerPool> make_process_pool(const PoolSetup& setup);
std::unique_ptr<WorkerPool> make_thread_pool(const PoolSetup& setup);

}  // namespace misfire::dataloader
