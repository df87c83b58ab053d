#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/json.hpp"
#include "harness/options.hpp"
#include "harness/recorder.hpp"
#include "harness/seed.hpp"
#include "harness/topology.hpp"
#include "suites/dataloader/segment.hpp"

namespace misfire::dataloader {

/// Bytes of one image in a batch: u8 [224, 224, 3].
inline constexpr int image_side = 224;
inline constexpr std::size_t image_bytes = std::size_t{image_side} * image_side * 3;

/// Options of the loader; names and meaning as in torch.utils.data.DataLoader where it has them.
struct LoaderOptions {
  int num_workers = 2;  ///< 0: the consumer makes its batches itself
  std::string mode = "process";
  std::string start_method = "fork";
  int batch_size = 32;
  int prefetch_factor = 2;
  bool in_order = true;
  std::string assignment = "round_robin";
  bool persistent_workers = false;
  std::string sharing = "descriptor";
  std::string segments = "pooled";
  bool reserve = false;
  std::string affinity = "none";
  std::string affinity_cpus;
  bool shuffle = false;
  bool drop_last = false;
  int rank = 0, world_size = 1;
  bool pad = true;
  bool iterable = false;
  bool split_shards = true;
  int held_batches = 0;
  std::string on_bad_sample = "skip";
  Duration timeout{};
};
std::vector<Option> loader_option_list(LoaderOptions& options);

/// What loading one sample needs and leaves behind.
struct LoadContext {
  Lane& lane;
  Seed seed{0};
  std::uint64_t bytes_read = 0;
};

/// Whether a sample could be made; if not, why, with its path.
struct SampleResult {
  bool ok = true;
  std::string message = {};
};

/// What workers load from. Used by several threads, or by processes forked after it was made.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;
  /// Iterable form: sample i belongs to shard i mod shards().
  virtual std::size_t shards() const { return 1; }
  /// Path or description of a sample, for people.
  virtual std::string name(std::size_t index) const = 0;
  /// Called in a new worker before its first batch.
  virtual void on_worker_start(int /*worker*/) const {}
  /// Called before each batch that a worker makes, counted from 1.
  virtual void on_batch(int /*worker*/, int /*batches*/) const {}
  /// @param out  image_bytes bytes of the batch
  virtual SampleResult load(std::size_t index, int epoch, std::span<std::uint8_t> out, std::int32_t& label,
                            LoadContext& context) const = 0;
};

/// What a worker is asked for.
struct Task {
  std::uint32_t batch = 0;
  std::int32_t epoch = 0;
  std::int32_t slot = -1;              ///< place in the pool; -1 for a fresh segment
  std::vector<std::uint32_t> indices;  ///< empty for a stream: the next ones of the worker's own shards
};

/// What comes back.
struct Made {
  enum class Status : std::uint32_t { made, empty, no_space, error };
  Status status = Status::made;
  std::uint32_t batch = 0;
  std::int32_t worker = -1;
  std::int32_t slot = -1;
  std::vector<std::int32_t> labels;
  std::vector<std::uint32_t> indices;
  std::string text;  ///< of an error
  Segment segment;   ///< fresh segments only
};

/// The answer of a worker that could not start: its trouble.
Made could_not_start(const Task& task, int worker, const std::string& trouble);

/// What a worker is doing, readable after it died, and the wish that it leave what is queued and go.
struct Position {
  std::atomic<std::int64_t> batch{-1}, sample{-1};
  std::atomic<double> shm_used{-1};  ///< of /dev/shm, when SIGBUS came; -1: it did not, or could not be read
  std::atomic<bool> leave{false};
};

/// Makes batches; the same in a process, in a thread and in the consumer itself.
class BatchMaker {
 public:
  BatchMaker(const Dataset& dataset, const LoaderOptions& options, int worker, Seed seed, Lane& lane, Position* position);
  /// @param pool  the slot's memory; ignored when the task wants a fresh segment
  Made make(const Task& task, std::span<std::uint8_t> pool);

 private:
  std::vector<std::uint32_t> next_of_stream(int epoch);

  const Dataset& dataset_;
  const LoaderOptions& options_;
  int worker_;
  LoadContext context_;
  Position* position_;
  int batches_ = 0;
  int stream_epoch_ = -1;
  std::vector<std::uint32_t> stream_;
  std::size_t stream_at_ = 0;
};

/// What placing workers needs to know of the machine; null when it needs nothing. Read once and before the workers start: it
/// takes milliseconds, and the libraries below it are not made for several threads at once. @throws Error{unsupported}
std::shared_ptr<const Topology> topology_for(const LoaderOptions& options);
/// Binds the calling worker to the CPUs that the options give it. @throws Error{invalid_input, unsupported}
void place_worker(const LoaderOptions& options, const Topology* topology, int worker);

/// How a dataset is made again in a process that was executed instead of forked.
using DatasetFactory = std::function<std::unique_ptr<Dataset>(const Json& description)>;
/// Whether these are the arguments of such a process, and its main function.
bool is_worker_command(const std::vector<std::string>& arguments);
int worker_main(const std::vector<std::string>& arguments, const DatasetFactory& factory);

}  // namespace misfire::dataloader
