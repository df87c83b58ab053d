// What the loader adds to the work of its workers.
//
// loader/rate         an epoch with workers on every CPU, processes and threads, against one thread that does the same: its
//                     time, and the share of (workers x single thread) that it reaches
// loader/first_batch  from nothing to the first batch: four workers forked, batch 32, files in memory
// loader/empty        a batch through a worker process and back with nothing made: messages, wake-ups, bookkeeping

#include <benchmark/benchmark.h>
#include <memory>

#include "harness/topology.hpp"
#include "suites/dataloader/crop.hpp"
#include "suites/dataloader/jpeg.hpp"
#include "suites/dataloader/loader.hpp"
#include "suites/micro/images.hpp"
#include "suites/micro/paired.hpp"

namespace misfire::micro {
namespace {

using namespace dataloader;

/// Images in memory, decoded as the scenario does; without files, samples that cost nothing.
class Samples : public Dataset {
 public:
  Samples(std::size_t size, std::vector<std::vector<std::uint8_t>> files) : size_(size), files_(std::move(files)) {}
  std::size_t size() const override { return size_; }
  std::string name(std::size_t index) const override { return std::to_string(index); }
  SampleResult load(std::size_t index, int epoch, std::span<std::uint8_t> out, std::int32_t& label,
                    LoadContext& context) const override {
    label = 0;
    if (files_.empty()) return {};
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
  std::vector<std::vector<std::uint8_t>> files_;
};

LoaderOptions options_of(const char* mode, int workers) {
  LoaderOptions options;
  options.mode = mode;
  options.num_workers = workers;
  options.persistent_workers = true;
  options.on_bad_sample = "refuse";
  return options;
}

/// A loader with what it needs; every epoch is the same work.
struct Running {
  Running(const char* mode, int workers, const Dataset& dataset)
      : loader(options_of(mode, workers), dataset, Seed(1), recorder, lane) {
    loader.start();
  }
  void epoch() {
    loader.begin_epoch(0);
    while (loader.next()) {
    }
    loader.end_epoch();
  }
  Recorder recorder;
  Lane lane;
  Loader loader;
};

void rate(benchmark::State& state) {
  std::string origin;
  const Samples dataset(32 * 12, images(origin));
  const int workers = static_cast<int>(affinity_mask().size());
  Running processes("process", workers, dataset), alone("thread", 0, dataset), threads("thread", workers, dataset);
  const auto operations = static_cast<double>(dataset.size());
  compare(state, {{"single", [&] { alone.epoch(); }, operations},
                  {"processes", [&] { processes.epoch(); }, operations},
                  {"threads", [&] { threads.epoch(); }, operations}});
  for (const char* mode : {"processes", "threads"})
    state.counters[std::string(mode) + "_efficiency"] = 1 / (workers * state.counters[std::string(mode) + "_over_single"].value);
  state.counters["workers"] = workers;
  state.SetLabel(origin);
}

void first_batch(benchmark::State& state) {
  std::string origin;
  const Samples dataset(256, images(origin));
  bool came = true;
  compare(state, {{"first_batch", [&] {
                     Running running("process", 4, dataset);
                     running.loader.begin_epoch(0);
                     came = running.loader.next().has_value() && came;
                   }}});
  if (!came) state.SkipWithError("no batch came");
  state.SetLabel(origin);
}

void empty(benchmark::State& state) {
  constexpr std::size_t batches = 1000;
  const Samples dataset(32 * batches, {});
  Running processes("process", 1, dataset), alone("thread", 0, dataset);
  compare(state, {{"alone", [&] { alone.epoch(); }, batches}, {"process", [&] { processes.epoch(); }, batches}});
}

}  // namespace

void register_loader() {
  benchmark::RegisterBenchmark("loader/rate", rate)->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(1);
  benchmark::RegisterBenchmark("loader/first_batch", first_batch)->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(0.3);
  benchmark::RegisterBenchmark("loader/empty", empty)->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(0.02);
}

}  // namespace misfire::micro
