// The workload `loading`: JPEG images through the loader into a training step.
//
// Models a training job's input side: records of a dataset in memory, decoding and augmentation in workers, hand-over in shared
// memory, a consumer that copies each batch to a device and waits for the step. Does not model a network file system (read_delay
// stands for its latency) or several ranks at once (world_size runs their shares one after the other).

#include "suites/dataloader/loading.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "harness/device.hpp"
#include "harness/topology.hpp"
#include "kernels/devices.hpp"
#include "storage/sample_source.hpp"
#include "suites/dataloader/crop.hpp"
#include "suites/dataloader/jpeg.hpp"
#include "suites/dataloader/loader.hpp"
#include "suites/dataloader/metrics.hpp"
#include "suites/dataloader/photographs.hpp"
#include "suites/dataloader/sample_table.hpp"
#include "suites/dataloader/sites.hpp"

namespace misfire::dataloader {
namespace {

struct LoadingOptions {
  LoaderOptions loader;
  std::string data = "misfire-out/data";
  std::string source;  // of the user's own images
  std::string image_class = "small";
  bool in_memory = false;
  int images = 256;
  int epochs = 1;
  int slow_every = 0;
  int slow_samples = 1;
  Duration read_delay{};
  int shards = 8;
  std::string table = "none";
  std::uint64_t table_bytes = 1 << 20;
  double table_reads = 1;
  std::uint64_t leak_per_batch = 0;
  std::int64_t index_rebuild = 0;
  int neighbours = 0;
  std::string worker_end = "none";
  int worker_end_batch = 2;
  std::string device = "host";
  int hidden = 64;
  int passes = 1;

  OptionTable table_of_options() {
    std::vector<Option> list = loader_option_list(loader);
    const std::vector<Option> own{
        {"data", &data, "directory of the prepared images", Unit::text, 0, 0, {}, "DIR"},
        {"source",
         &source,
         "your own images: a directory, a tar shard, or a directory of shards; replaces the prepared ones",
         Unit::text,
         0,
         0,
         {},
         "PATH"},
        {"image_class",
         &image_class,
         "prepared images to use: small 500 x 375, medium 1024 x 768",
         Unit::text,
         0,
         0,
         {"small", "medium"}},
        {"in_memory", &in_memory, "read all files once before the run"},
        {"images", &images, "samples in one epoch; the files are repeated to that number", Unit::count, 1, 1e8},
        {"epochs", &epochs, "passes over the data", Unit::count, 1, 1e6},
        {"slow_every", &slow_every, "every n-th batch holds images of 6 megapixels; 0: none", Unit::count, 0, 1e6},
        {"slow_samples", &slow_samples, "how many such images a slow batch holds", Unit::count, 1, 4096},
        {"read_delay", &read_delay, "latency added to every read of a sample: slow storage", Unit::seconds, 0, 60},
        {"shards", &shards, "shards of the iterable form", Unit::count, 1, 1e6},
        {"table",
         &table,
         "records in memory beside the images: none, one flat buffer, or small reference-counted objects",
         Unit::text,
         0,
         0,
         {"none", "flat", "objects"}},
        {"table_bytes", &table_bytes, "size of the table", Unit::bytes, 64, 1e12},
        {"table_reads", &table_reads, "share of a sample's records that loading it reads", Unit::fraction, 0, 1},
        {"leak_per_batch", &leak_per_batch, "memory that the consumer keeps for every batch", Unit::bytes, 0, 1e9},
        {"index_rebuild", &index_rebuild, "entries of an index that the consumer sorts at every epoch's begin", Unit::count, 0,
         1e9},
        {"neighbours", &neighbours, "spinning processes beside the loader", Unit::count, 0, 1024},
        {"worker_end",
         &worker_end,
         "how worker 0 ends: none, kill (SIGKILL), truncate (SIGBUS on a file cut short under its mapping)",
         Unit::text,
         0,
         0,
         {"none", "kill", "truncate"}},
        {"worker_end_batch", &worker_end_batch, "at its n-th batch", Unit::count, 1, 1e6},
        {"device", &device, "where the training step runs", Unit::text, 0, 0, {"host", "cuda"}},
        {"hidden", &hidden, "width of the model's hidden layer: cost of a step", Unit::count, 1, 65536},
        {"passes", &passes, "training steps taken with each batch; 0: no training", Unit::count, 0, 10000},
    };
    list.insert(list.end(), own.begin(), own.end());
    return OptionTable("MISFIRE_DATALOADER", std::move(list));
  }
};

/// What workers load from: files decoded, cropped and flipped into the batch, with the records that lie beside them.
class Photographs : public Dataset {
 public:
  explicit Photographs(const LoadingOptions& options) : options_(options) {
    if (!options.source.empty()) {
      files_ = open_samples("", options.source);
    } else {
      const DataSet data = prepare_photographs(options.data, {}, Seed(data_seed));
      files_ = open_samples("directory", data.directory + "/" + options.image_class);
      if (options.slow_every > 0) large_ = open_samples("directory", data.directory + "/large");
      origin_ = data.origin;
    }
    if (options.in_memory) files_ = read_into_memory(*files_);
    if (options.table != "none")
      table_ = std::make_unique<SampleTable>(options.table == "flat" ? SampleTable::Layout::flat : SampleTable::Layout::objects,
                                             options.table_bytes, static_cast<std::size_t>(options.images));
  }

  std::size_t size() const override { return static_cast<std::size_t>(options_.images); }
  std::size_t shards() const override { return static_cast<std::size_t>(options_.shards); }
  const SampleTable* table() const noexcept { return table_.get(); }
  const std::string& origin() const noexcept { return origin_; }

  std::string name(std::size_t index) const override {
    const auto [source, place] = where(index);
    return source->name(place);
  }

  void on_batch(int worker, int batches) const override {
    if (options_.worker_end == "none" || worker != 0 || batches != options_.worker_end_batch) return;
    if (options_.worker_end == "kill") {
      kill(getpid(), SIGKILL);
      return;
    }
    // Another process shortened the file under our mapping: the next touch beyond its end is a SIGBUS.
    const int file = memfd_create("misfire-truncated", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, 4096) != 0) throw system_error("make a file to cut short", "", errno);
    auto* memory = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    if (memory == MAP_FAILED || ftruncate(file, 0) != 0) throw system_error("cut a file short", "", errno);
    memory[0] = 1;
  }

  SampleResult load(std::size_t index, int epoch, std::span<std::uint8_t> out, std::int32_t& label,
                    LoadContext& context) const override {
    thread_local JpegDecoder decoder;
    thread_local std::vector<std::uint8_t> buffer;
    thread_local volatile std::uint64_t records = 0;  // keeps the compiler from dropping the reads
    if (table_) records = records + table_->read(index, options_.table_reads);
    const auto [source, place] = where(index);
    const auto tag = static_cast<std::uint32_t>(index);
    context.lane.begin(site::read, tag);
    if (options_.read_delay > Duration::zero())
      std::this_thread::sleep_for(options_.read_delay);  // the failure modelled is this delay
    const std::span<const std::uint8_t> bytes = source->read(place, buffer);
    context.lane.end(site::read, tag);
    context.bytes_read += bytes.size();
    JpegHeader header;
    if (const DecodeResult result = decoder.read_header(bytes, header); !result)
      return {false, source->name(place) + ": " + result.message};
    const Augmentation drawn =
        draw_augmentation(context.seed, static_cast<std::uint64_t>(epoch), index, header.width, header.height, crop_rule(index));
    label = static_cast<std::int32_t>(index % 10);
    const DecodeResult result = decoder.decode_crop(bytes, drawn.box, image_side, image_side, drawn.flip, out);
    return {static_cast<bool>(result), result ? std::string() : source->name(place) + ": " + result.message};
  }

 private:
  bool slow(std::size_t index) const {
    const auto batch = static_cast<std::size_t>(options_.loader.batch_size);
    return options_.slow_every > 0 && index % batch < static_cast<std::size_t>(options_.slow_samples) &&
           index / batch % static_cast<std::size_t>(options_.slow_every) == static_cast<std::size_t>(options_.slow_every) - 1;
  }
  /// The tail is in the file's size; its crop is the whole image, so that every slow sample costs the same.
  CropRule crop_rule(std::size_t index) const { return slow(index) ? CropRule{1, 1, 1.5, 1.5} : CropRule{}; }
  std::pair<const SampleSource*, std::size_t> where(std::size_t index) const {
    if (large_ && slow(index)) return {large_.get(), index % large_->size()};
    return {files_.get(), index % files_->size()};
  }
  static std::unique_ptr<SampleSource> read_into_memory(const SampleSource& source) {
    std::vector<MemorySample> samples;
    std::vector<std::uint8_t> buffer;
    for (std::size_t i = 0; i < source.size(); ++i) {
      const auto bytes = source.read(i, buffer);
      samples.push_back({source.name(i), {bytes.begin(), bytes.end()}});
    }
    return samples_in_memory(std::move(samples));
  }

  LoadingOptions options_;
  std::unique_ptr<SampleSource> files_, large_;
  std::unique_ptr<SampleTable> table_;
  std::string origin_ = "given";
};

/// Processes that use CPUs and nothing else, as another job on the machine does.
class Neighbours {
 public:
  explicit Neighbours(int count) {
    const pid_t self = getpid();
    for (int i = 0; i < count; ++i) {
      const pid_t pid = fork();
      if (pid < 0) throw system_error("start", "a neighbour process", errno);
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self) _exit(1);
        for (volatile std::uint64_t spin = 0;;) spin = spin + 1;
      }
      pids_.push_back(pid);
    }
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  ~Neighbours() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
  }

 private:
  std::vector<pid_t> pids_;
};

/// The training step on a device, one batch at a time; the consumer waits for its end, as a loop does that reads the loss.
class Training {
 public:
  Training(const LoadingOptions& options, Seed seed, Recorder* recorder)
      : batch_size_(options.loader.batch_size),
        passes_(options.passes),
        device_(make_device(options.device, {.memory_bytes = 512ULL << 20, .recorder = recorder})),
        queue_(device_->make_queue()),
        images_(device_->allocate(static_cast<std::uint64_t>(batch_size_) * image_bytes)),
        step_(device_->make_training_step({.batch = batch_size_, .hidden = options.hidden}, seed)) {}
  void run(const Batch& batch) {
    if (static_cast<int>(batch.indices.size()) < batch_size_) return;  // a short last batch does not fit the model's shape
    queue_->copy_in(images_, std::as_bytes(batch.images()));
    queue_->begin(site::device, batch.number);
    for (int pass = 0; pass < passes_; ++pass) step_->enqueue(*queue_, images_, batch.labels);
    queue_->end(site::device, batch.number);
    queue_->synchronize();
  }

 private:
  int batch_size_, passes_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceQueue> queue_;
  DeviceMemory images_;
  std::unique_ptr<TrainingStep> step_;
};

class Loading : public Workload {
 public:
  OptionTable options() override { return options_.table_of_options(); }

  void prepare(Subject& subject) override {
    subject.note("machine_cpus", Json(affinity_mask().size()));  // before any fault narrows it
    // A pool that starts workers by exec loads the dataset there; here only its names are needed.
    LoadingOptions mine = options_;
    if (by_exec()) mine.table = "none";
    dataset_ = std::make_unique<Photographs>(mine);
    subject.note("images_from", Json(dataset_->origin()));
    if (const SampleTable* table = dataset_->table())
      subject.watch_region("table", table->memory().data(), table->memory().size());
  }

  void run(Subject& subject) override {
    Lane lane = subject.recorder().claim_lane();
    subject.start_run();  // faults first: what is started from here on is their victim
    try {
      train(subject, lane);
    } catch (const WorkerDied& death) {
      subject.failed(death.signal != 0 ? "worker_killed" : "worker_exited", death.what());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_space) throw;
      subject.failed("no_space", error.what());
    }
  }

  std::vector<Metric> analyse(const Trace& trace, std::vector<std::pair<std::string, std::string>>& missing) override {
    return dataloader::analyse(trace, missing);
  }

 private:
  bool by_exec() const {
    return options_.loader.mode == "process" && options_.loader.start_method == "spawn" && options_.loader.num_workers > 0;
  }

  void train(Subject& subject, Lane& lane) {
    std::vector<std::unique_ptr<Loader>> loaders;  // one a rank, run one after the other
    for (int rank = 0; rank < options_.loader.world_size; ++rank) {
      LoaderOptions loader = options_.loader;
      loader.rank = rank;
      loaders.push_back(std::make_unique<Loader>(loader, *dataset_, subject.seed(), subject.recorder(), lane,
                                                 subject.recorder_descriptor(), options_.table_of_options().values()));
      if (!loaders.back()->pool().empty())
        subject.watch_region("batches", loaders.back()->pool().data(), loaders.back()->pool().size());
      loaders.back()->start();
    }
    const Neighbours neighbours(options_.neighbours);
    std::optional<Training> training;  // starts a thread: after every process was forked
    if (options_.passes > 0) training.emplace(options_, subject.seed(), &subject.recorder());

    try {
      for (int epoch = 0; epoch < options_.epochs; ++epoch) {
        lane.begin(site::epoch, static_cast<std::uint32_t>(epoch));
        for (const auto& loader : loaders) run_epoch(*loader, epoch, lane, training);
        lane.end(site::epoch, static_cast<std::uint32_t>(epoch));
        subject.look("epoch_end", static_cast<std::uint32_t>(epoch));
        for (const auto& loader : loaders) loader->end_epoch();
      }
    } catch (const WorkerDied& death) {
      lane.mark(site::worker_died_at, static_cast<std::uint32_t>(death.worker));
      lane.sample(site::worker_died, death.signal, static_cast<std::uint32_t>(death.worker));
      subject.look("worker_died", static_cast<std::uint32_t>(death.worker));
      throw;
    } catch (const Error&) {
      subject.look("loader_failed");
      throw;
    }
    subject.end_run();
  }

  void run_epoch(Loader& loader, int epoch, Lane& lane, std::optional<Training>& training) {
    const auto tag = static_cast<std::uint32_t>(epoch);
    lane.begin(site::prepare_epoch, tag);
    rebuild_index(epoch);
    loader.begin_epoch(epoch);
    lane.end(site::prepare_epoch, tag);
    while (auto batch = loader.next()) {
      lane.begin(site::step, batch->number);
      if (training) training->run(*batch);
      lane.end(site::step, batch->number);
      if (options_.leak_per_batch > 0) leaked_.emplace_back(options_.leak_per_batch, static_cast<char>(batch->number));
      if (options_.loader.held_batches > 0) {
        held_.push_back(std::move(*batch));
        while (static_cast<int>(held_.size()) > options_.loader.held_batches) held_.pop_front();
      }
    }
    held_.clear();
  }

  void rebuild_index(int epoch) {
    if (options_.index_rebuild == 0) return;
    Stream stream = Seed(data_seed).stream("index").substream(static_cast<std::uint64_t>(epoch));
    std::vector<std::pair<std::uint64_t, std::uint32_t>> index(static_cast<std::size_t>(options_.index_rebuild));
    for (std::uint32_t i = 0; i < index.size(); ++i) index[i] = {stream(), i};
    std::sort(index.begin(), index.end());
    first_of_index_ = index.front().second;
  }

  LoadingOptions options_;
  std::unique_ptr<Photographs> dataset_;
  std::vector<std::vector<char>> leaked_;
  std::deque<Batch> held_;
  std::uint32_t first_of_index_ = 0;
};

std::unique_ptr<Workload> make_workload(std::string_view) { return std::make_unique<Loading>(); }

}  // namespace

const Scenario& scenario() {
  static const Scenario description{
      "dataloader", "A loader of JPEG images feeding a training step: starvation, memory, order, placement.",
      {"loading"},  &make_workload,
      metrics(),    std::span(site::all)};
  return description;
}

bool is_loader_worker(const std::vector<std::string>& arguments) { return is_worker_command(arguments); }

int loader_worker(const std::vector<std::string>& arguments) {
  return worker_main(arguments, [](const Json& description) -> std::unique_ptr<Dataset> {
    LoadingOptions options;
    options.table_of_options().set(description);
    return std::make_unique<Photographs>(options);
  });
}

}  // namespace misfire::dataloader
