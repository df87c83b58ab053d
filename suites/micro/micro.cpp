// misfire-micro: what the parts cost, measured by themselves. A Google Benchmark program.
//
// Figures that bounds are set on come out as ratios of two benchmarks of one run: a stamped event over a bare time stamp, a full
// decode over a crop, the loader over its workers times one thread. Counters hold what was lost and what was moved.

#include <benchmark/benchmark.h>

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/recorder.hpp"
#include "harness/topology.hpp"
#include "storage/sample_source.hpp"
#include "suites/dataloader/crop.hpp"
#include "suites/dataloader/jpeg.hpp"
#include "suites/dataloader/loader.hpp"
#include "suites/dataloader/loading.hpp"
#include "suites/dataloader/photographs.hpp"

namespace {

using namespace misfire;
using namespace misfire::dataloader;

constexpr Site site{1, "micro"};

void keep_to_cpu(std::size_t place) {
  static const std::vector<int> cpus = affinity_mask();
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpus[place % cpus.size()]), &set);
  sched_setaffinity(0, sizeof set, &set);
}

/// A recorder in shared memory, drained by another process on the last CPU, or by nobody.
class Recording {
 public:
  Recording(Recorder::Shape shape, bool drained) : bytes_(Recorder::mapping_bytes(shape)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw system_error("take memory for a recorder", "", 0);
    recorder_ = Recorder::create({static_cast<std::byte*>(memory_), bytes_}, shape);
    lane_ = recorder_.claim_lane();
    if (!drained) return;
    drain_ = fork();
    if (drain_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    keep_to_cpu(affinity_mask().size() - 1);
    for (std::uint64_t sum = 0;;) {
      recorder_.drain(0, [&](std::span<const RawEvent> events) {
        for (const RawEvent& event : events) sum += event.word;  // the events cross to this CPU
      });
      benchmark::DoNotOptimize(sum);
    }
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (drain_ > 0) {
      kill(drain_, SIGKILL);
      waitpid(drain_, nullptr, 0);
    }
    munmap(memory_, bytes_);
  }
  Lane& lane() { return lane_; }
  void empty() {
    recorder_.drain(0, [](std::span<const RawEvent>) {});
  }
  Recorder::LaneInfo info() const { return recorder_.lane(0); }

 private:
  std::size_t bytes_;
  void* memory_;
  Recorder recorder_;
  Lane lane_;
  pid_t drain_ = 0;
};

/// Restores the CPU mask at the end of a benchmark that narrowed it.
class OwnCpu {
 public:
  OwnCpu() {
    sched_getaffinity(0, sizeof before_, &before_);
    keep_to_cpu(0);
  }
  OwnCpu(const OwnCpu&) = delete;
  OwnCpu& operator=(const OwnCpu&) = delete;
  ~OwnCpu() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

void bare_time_stamp(benchmark::State& state) {
  const OwnCpu cpu;
  for (auto _ : state) benchmark::DoNotOptimize(raw_ticks());
}
BENCHMARK(bare_time_stamp);

void stamped_event(benchmark::State& state) {
  const OwnCpu cpu;
  Recording recording({1, 1 << 16}, true);
  for (auto _ : state) recording.lane().mark(site);
  state.counters["dropped"] = static_cast<double>(recording.info().dropped);
}
BENCHMARK(stamped_event);

/// A ring that stays in the first-level cache, emptied by us between two timed stretches: the cost of writing alone.
void unstamped_sample_drain_stopped(benchmark::State& state) {
  const OwnCpu cpu;
  Recording recording({1, 512}, false);
  std::uint32_t tag = 0;
  while (state.KeepRunningBatch(512)) {
    recording.empty();
    for (int i = 0; i < 512; ++i) recording.lane().sample(site, 1.0, ++tag);
  }
  state.counters["dropped"] = static_cast<double>(recording.info().dropped);
}
BENCHMARK(unstamped_sample_drain_stopped);

void unstamped_sample_drained(benchmark::State& state) {
  const OwnCpu cpu;
  Recording recording({1, 1 << 16}, true);
  std::uint32_t tag = 0;
  for (auto _ : state) recording.lane().sample(site, 1.0, ++tag);
  state.counters["dropped"] = static_cast<double>(recording.info().dropped);
}
BENCHMARK(unstamped_sample_drained);

/// One second at 10 million events a second: each is written when its time has come.
void ten_million_a_second(benchmark::State& state) {
  const OwnCpu cpu;
  constexpr std::uint64_t events = 10'000'000;
  Recording recording({1, 1 << 16}, true);
  for (auto _ : state) {
    const ClockAnchor first = ClockAnchor::take();
    while (monotonic_ns() - first.monotonic_ns < 20'000'000) {
    }
    const ClockAnchor second = ClockAnchor::take();
    const double ticks_each =
        static_cast<double>(second.ticks - first.ticks) / static_cast<double>(second.monotonic_ns - first.monotonic_ns) * 100;
    const std::uint64_t start = raw_ticks();
    const std::int64_t start_ns = monotonic_ns();
    for (std::uint64_t i = 0; i < events; ++i) {
      while (raw_ticks() - start < static_cast<std::uint64_t>(static_cast<double>(i) * ticks_each)) {
      }
      recording.lane().mark(site, static_cast<std::uint32_t>(i));
    }
    state.SetIterationTime(static_cast<double>(monotonic_ns() - start_ns) * 1e-9);
  }
  state.counters["dropped"] = static_cast<double>(recording.info().dropped);
  state.counters["written"] = static_cast<double>(recording.info().written);
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * events));
}
BENCHMARK(ten_million_a_second)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);

/// The images of the suite, made once for this process.
const DataSet& images() {
  static const TemporaryDirectory directory;
  static const DataSet data =
      prepare_photographs(directory.path() + "/data", {.small = 96, .medium = 24, .large = 1}, Seed(data_seed));
  return data;
}

template <bool full>
void decode(benchmark::State& state) {
  const auto source = open_samples("directory", images().directory + (state.range(0) == 0 ? "/small" : "/medium"));
  std::vector<std::vector<std::uint8_t>> files;
  std::vector<std::uint8_t> buffer, out(image_bytes);
  for (std::size_t i = 0; i < source->size(); ++i) {
    const auto bytes = source->read(i, buffer);
    files.emplace_back(bytes.begin(), bytes.end());
  }
  JpegDecoder decoder;
  std::size_t i = 0;
  for (auto _ : state) {
    const std::size_t place = i % files.size();
    JpegHeader header;
    decoder.read_header(files[place], header);
    const Augmentation drawn = draw_augmentation(Seed(1), i / files.size(), place, header.width, header.height);
    const DecodeResult result = full ? decoder.decode_full(files[place], drawn.box, image_side, image_side, drawn.flip, out)
                                     : decoder.decode_crop(files[place], drawn.box, image_side, image_side, drawn.flip, out);
    if (!result) return state.SkipWithError(result.message.c_str());
    ++i;
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel(images().origin + (state.range(0) == 0 ? " 500 x 375" : " 1024 x 768"));
}
BENCHMARK(decode<true>)->Name("decode_full")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(decode<false>)->Name("decode_crop")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

/// Images in memory, decoded as the scenario does; or nothing at all.
class Images : public Dataset {
 public:
  Images(std::size_t size, bool decode) : size_(size), decode_(decode) {
    if (!decode) return;
    const auto source = open_samples("directory", images().directory + "/small");
    std::vector<std::uint8_t> buffer;
    for (std::size_t i = 0; i < source->size(); ++i) {
      const auto bytes = source->read(i, buffer);
      files_.emplace_back(bytes.begin(), bytes.end());
    }
  }
  std::size_t size() const override { return size_; }
  std::string name(std::size_t index) const override { return std::to_string(index); }
  SampleResult load(std::size_t index, int epoch, std::span<std::uint8_t> out, std::int32_t& label,
                    LoadContext& context) const override {
    label = 0;
    if (!decode_) return {};
    thread_local JpegDecoder decoder;
    const auto& file = files_[index % files_.size()];
    JpegHeader header;
    decoder.read_header(file, header);
    const Augmentation drawn =
        draw_augmentation(context.seed, static_cast<std::uint64_t>(epoch), index, header.width, header.height);
    const DecodeResult result = decoder.decode_crop(file, drawn.box, image_side, image_side, drawn.flip, out);
    return {static_cast<bool>(result), result.message};
  }

 private:
  std::size_t size_;
  bool decode_;
  std::vector<std::vector<std::uint8_t>> files_;
};

LoaderOptions loader_options(const char* mode, int workers) {
  LoaderOptions options;
  options.mode = mode;
  options.num_workers = workers;
  options.persistent_workers = true;
  return options;
}

/// A batch through the pool of processes and back, with nothing made: messages, wake-ups, bookkeeping.
void hand_over(benchmark::State& state) {
  const Images dataset(32 * 2000, false);
  Recorder recorder;
  Lane lane;
  Loader loader(loader_options("process", 1), dataset, Seed(1), recorder, lane);
  loader.start();
  int epoch = 0;
  loader.begin_epoch(epoch);
  for (auto _ : state) {
    if (loader.next()) continue;
    loader.end_epoch();
    loader.begin_epoch(++epoch);
    if (!loader.next()) return state.SkipWithError("an epoch without batches");
  }
  while (loader.next()) {
  }
}
BENCHMARK(hand_over)->Unit(benchmark::kMicrosecond)->UseRealTime();

/// From nothing to the first batch: four workers forked, batch 32, files in memory.
void first_batch(benchmark::State& state) {
  const Images dataset(256, true);
  for (auto _ : state) {
    Recorder recorder;
    Lane lane;
    const std::int64_t start = monotonic_ns();
    Loader loader(loader_options("process", 4), dataset, Seed(1), recorder, lane);
    loader.start();
    loader.begin_epoch(0);
    const auto batch = loader.next();
    state.SetIterationTime(static_cast<double>(monotonic_ns() - start) * 1e-9);
    if (!batch) return state.SkipWithError("no batch came");
  }
}
BENCHMARK(first_batch)->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(0.5);

/// Images a second of one epoch, with workers on every CPU; 0 workers: the consumer alone, which is the single-thread rate.
void loader_rate(benchmark::State& state, const char* mode, int workers) {
  const Images dataset(32 * 24, true);
  Recorder recorder;
  Lane lane;
  Loader loader(loader_options(mode, workers), dataset, Seed(1), recorder, lane);
  loader.start();
  int epoch = 0;
  const auto run_epoch = [&] {
    std::int64_t count = 0;
    loader.begin_epoch(epoch++);
    while (const auto batch = loader.next()) count += static_cast<std::int64_t>(batch->indices.size());
    loader.end_epoch();
    return count;
  };
  run_epoch();  // starts the workers, touches the pool
  std::int64_t done = 0;
  for (auto _ : state) done += run_epoch();
  state.SetItemsProcessed(done);
  state.counters["workers"] = workers;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int cpus = static_cast<int>(affinity_mask().size());
    const auto add = [](const std::string& name, const char* mode, int workers) {
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { loader_rate(state, mode, workers); })
          ->UseRealTime()
          ->MinTime(1.0)
          ->Unit(benchmark::kMillisecond);
    };
    add("loader_single_thread", "thread", 0);
    add("loader_processes", "process", cpus);
    add("loader_threads", "thread", cpus);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return static_cast<int>(Exit::usage);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "misfire-micro: %s\n", error.what());
    return static_cast<int>(Exit::internal);
  }
}
