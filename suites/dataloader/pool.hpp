#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "suites/dataloader/worker.hpp"

namespace misfire::dataloader {

/// A worker ended although it should not have.
class WorkerDied : public std::runtime_error {
 public:
  WorkerDied(int worker_index, int process, int by_signal, int code, const std::string& message)
      : std::runtime_error(message), worker(worker_index), pid(process), signal(by_signal), exit_code(code) {}
  int worker, pid;
  int signal;     ///< 0 when it exited
  int exit_code;  ///< when signal is 0
};

/// The workers of a loader, whatever they are made of.
class WorkerPool {
 public:
  virtual ~WorkerPool() = default;
  /// Before any thread exists: what must be forked early (the fork server) is.
  virtual void prepare() {}
  virtual void start() = 0;
  virtual void stop() = 0;
  virtual bool running() const = 0;
  virtual void send(int worker, const Task& task) = 0;
  /// The next finished batch of any worker; nothing when `timeout` passed (negative: wait for ever). @throws WorkerDied
  virtual std::optional<Made> receive(Duration timeout) = 0;
};

/// What a pool is made with. The slots' memory is shared with its workers.
struct PoolSetup {
  const Dataset& dataset;
  const LoaderOptions& options;
  Seed seed{0};
  Recorder recorder = {};
  int recorder_descriptor = -1;
  const Segment* slots = nullptr;  ///< null for fresh segments
  std::size_t slot_bytes = 0;
  Json description = Json::object();  ///< of the dataset, for start_method spawn
};

std::unique_ptr<WorkerPool> make_process_pool(const PoolSetup& setup);
std::unique_ptr<WorkerPool> make_thread_pool(const PoolSetup& setup);

}  // namespace misfire::dataloader
