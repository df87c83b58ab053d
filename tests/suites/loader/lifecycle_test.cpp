// What happens when things do not go straight on: epochs left half-way, workers that die while others are busy, batches that
// outlive their loader, queues deeper than a socket.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/procfs.hpp"
#include "tests/check.hpp"
#include "tests/suites/loader/synthetic.hpp"

namespace misfire::dataloader {
namespace {

using namespace std::chrono_literals;

struct Setting {
  const char* mode;
  const char* start_method;
  const char* segments;
};
constexpr Setting settings[] = {{"process", "fork", "pooled"},       {"process", "fork", "fresh"},
                                {"process", "forkserver", "pooled"}, {"process", "forkserver", "fresh"},
                                {"thread", "fork", "pooled"},        {"thread", "fork", "fresh"}};

LoaderOptions options_of(const Setting& setting) {
  LoaderOptions options;
  options.mode = setting.mode;
  options.start_method = setting.start_method;
  options.segments = setting.segments;
  options.num_workers = 2;
  options.batch_size = 4;
  return options;
}

std::string text_of(const Setting& setting) {
  return std::string(setting.mode) + " " + setting.start_method + " " + setting.segments;
}

/// Delivered samples of one epoch, with the times each was delivered.
std::map<std::uint32_t, int> epoch_of(Loader& loader, int epoch) {
  std::map<std::uint32_t, int> times;
  loader.begin_epoch(epoch);
  while (const auto batch = loader.next())
    for (const std::uint32_t index : batch->indices) ++times[index];
  loader.end_epoch();
  return times;
}

bool each_once(const std::map<std::uint32_t, int>& times, std::size_t samples) {
  return times.size() == samples && std::all_of(times.begin(), times.end(), [](const auto& t) { return t.second == 1; });
}

TEST("an epoch may be left half-way, as often as one likes, and the next one is whole") {
  for (const Setting& setting : settings)
    for (const bool persistent : {true, false})
      for (const bool in_order : {true, false})
        for (const bool ended : {true, false}) {
          const Synthetic dataset(80);
          Recorder recorder;
          Lane lane;
          LoaderOptions options = options_of(setting);
          options.persistent_workers = persistent;
          options.in_order = in_order;
          Loader loader(options, dataset, Seed(9), recorder, lane);
          loader.start();
          for (int epoch = 0; epoch < 8; ++epoch) {
            loader.begin_epoch(epoch);
            for (int i = 0; i < epoch % 4; ++i) CHECK(loader.next());
            if (ended) loader.end_epoch();
          }
          check::report(each_once(epoch_of(loader, 9), 80), __FILE__, __LINE__,
                        text_of(setting) + (persistent ? " persistent" : "") + (ended ? "" : ", end_epoch not called"));
        }
}

TEST("a stream may be left half-way too") {
  for (const char* mode : {"process", "thread"}) {
    const Synthetic dataset(80, 5);
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.mode = mode;
    options.num_workers = 2;
    options.batch_size = 4;
    options.iterable = true;
    options.persistent_workers = true;
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    for (int epoch = 0; epoch < 3; ++epoch) {
      loader.begin_epoch(epoch);
      CHECK(loader.next());
      loader.end_epoch();
    }
    CHECK(each_once(epoch_of(loader, 7), 80));
  }
}

TEST("after an exception of a worker the next epoch is whole") {
  for (const Setting& setting : settings)
    for (const bool persistent : {true, false}) {
      Synthetic dataset(80);
      dataset.at_epoch_sample = [](int epoch, std::size_t index) {
        if (epoch < 6 && index == 33) throw std::runtime_error("not today");
      };
      Recorder recorder;
      Lane lane;
      LoaderOptions options = options_of(setting);
      options.persistent_workers = persistent;
      Loader loader(options, dataset, Seed(9), recorder, lane);
      loader.start();
      for (int epoch = 0; epoch < 6; ++epoch) CHECK_THROWS(epoch_of(loader, epoch), "not today");
      check::report(each_once(epoch_of(loader, 6), 80), __FILE__, __LINE__, text_of(setting));
    }
}

TEST("after a worker's death the next epoch has new workers") {
  for (const Setting& setting : settings) {
    if (setting.mode == std::string("thread")) continue;
    for (const bool persistent : {true, false}) {
      Synthetic dataset(80);
      dataset.at_epoch_sample = [](int epoch, std::size_t index) {
        if (epoch == 0 && index == 33) kill(getpid(), SIGKILL);
      };
      Recorder recorder;
      Lane lane;
      LoaderOptions options = options_of(setting);
      options.persistent_workers = persistent;
      Loader loader(options, dataset, Seed(9), recorder, lane);
      loader.start();
      CHECK_THROWS(epoch_of(loader, 0), "killed by signal 9");
      check::report(each_once(epoch_of(loader, 1), 80), __FILE__, __LINE__, text_of(setting));
    }
  }
}

TEST("without workers a stream is read whole, once") {
  for (const int rank : {0, 1}) {
    const Synthetic dataset(30, 6);
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.num_workers = 0;
    options.batch_size = 4;
    options.iterable = true;
    options.rank = rank;
    options.world_size = 2;
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    for (int epoch = 0; epoch < 2; ++epoch) {
      const auto times = epoch_of(loader, epoch);
      CHECK(each_once(times, 15));
      CHECK(std::all_of(times.begin(), times.end(), [&](const auto& t) { return static_cast<int>(t.first % 2) == rank; }));
    }
  }
}

TEST("a stream's last batches that are not full are dropped when asked") {
  for (const int workers : {0, 1, 2}) {
    const Synthetic dataset(30, 2);
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.num_workers = workers;
    options.batch_size = 4;
    options.iterable = true;
    options.drop_last = true;
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    // 30 of one reader: 7 x 4; 15 of each of two: 3 x 4 twice
    CHECK_EQ(epoch_of(loader, 0).size(), workers == 2 ? 24U : 28U);
  }
}

/// Images that nobody writes: only messages go back and forth.
class Blank : public Dataset {
 public:
  explicit Blank(std::size_t size) : size_(size) {}
  std::size_t size() const override { return size_; }
  std::string name(std::size_t index) const override { return std::to_string(index); }
  SampleResult load(std::size_t, int, std::span<std::uint8_t>, std::int32_t& label, LoadContext&) const override {
    label = 1;
    return {};
  }

 private:
  std::size_t size_;
};

TEST("queues deeper than a socket's buffer do not lock consumer and worker") {
  const Blank dataset(256 * 1500);
  const pid_t child = fork();  // a lock-up must not take the test with it
  if (child == 0) {
    alarm(20);
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.num_workers = 1;
    options.batch_size = 256;
    options.prefetch_factor = 1024;
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    loader.begin_epoch(0);
    std::size_t batches = 0;
    while (loader.next()) ++batches;
    loader.stop();
    _exit(batches == 1500 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST("a death is noticed at once although the other workers are busy and quick") {
  for (const char* start : {"fork", "forkserver"})
    for (const bool in_order : {true, false}) {
      Synthetic dataset(100'000);
      dataset.at_sample = [&](std::size_t index) {
        if (index == 40) kill(getpid(), SIGKILL);
        std::this_thread::sleep_for(100us);
      };
      Recorder recorder;
      Lane lane;
      LoaderOptions options;
      options.num_workers = 4;
      options.batch_size = 1;
      options.prefetch_factor = 8;
      options.start_method = start;
      options.in_order = in_order;
      options.assignment = "by_demand";
      Loader loader(options, dataset, Seed(9), recorder, lane);
      loader.start();
      loader.begin_epoch(0);
      std::size_t delivered = 0;
      std::optional<std::string> said;
      try {
        while (loader.next()) ++delivered;
      } catch (const WorkerDied& died) {
        said = died.what();
      }
      CHECK(said && said->find("of batch 40") != std::string::npos);
      check::report(delivered < 200, __FILE__, __LINE__, std::to_string(delivered) + " batches after the death");
    }
}

TEST("a death is noticed even if batches enough are ready") {
  Synthetic dataset(64);
  dataset.at_sample = [](std::size_t index) {
    if (index == 9) kill(getpid(), SIGKILL);
  };
  Recorder recorder;
  Lane lane;
  LoaderOptions options;
  options.num_workers = 2;
  options.batch_size = 1;
  options.prefetch_factor = 8;
  Loader loader(options, dataset, Seed(9), recorder, lane);
  loader.start();
  loader.begin_epoch(0);
  std::this_thread::sleep_for(200ms);  // all that can be made is made; worker 1 is dead
  int delivered = 0;
  CHECK_THROWS(
      [&] {
        for (; loader.next(); ++delivered) {
        }
      }(),
      "while loading sample 9");
  CHECK_EQ(delivered, 0);
}

TEST("a worker that dies before its first batch is named too") {
  for (const char* start : {"fork", "forkserver"})
    for (int repeat = 0; repeat < 5; ++repeat) {
      Synthetic dataset(64);
      dataset.at_start = [](int worker) {
        if (worker == 1) _exit(9);
      };
      Recorder recorder;
      Lane lane;
      LoaderOptions options;
      options.start_method = start;
      Loader loader(options, dataset, Seed(9), recorder, lane);
      CHECK_THROWS(
          [&] {
            loader.start();
            epoch_of(loader, 0);
          }(),
          "exited with 9");
    }
}

TEST("SIGBUS sent by hand ends a worker like one of the kernel") {
  Synthetic dataset(64);
  dataset.at_sample = [](std::size_t index) {
    if (index == 9) kill(getpid(), SIGBUS);
  };
  Recorder recorder;
  Lane lane;
  LoaderOptions options;
  options.batch_size = 1;
  Loader loader(options, dataset, Seed(9), recorder, lane);
  loader.start();
  CHECK_THROWS(epoch_of(loader, 0), "killed by signal 7");
}

TEST("batches may outlive their loader") {
  for (const Setting& setting : settings) {
    const Synthetic dataset(64);
    std::vector<Batch> kept;
    {
      Recorder recorder;
      Lane lane;
      LoaderOptions options = options_of(setting);
      options.held_batches = 4;
      Loader loader(options, dataset, Seed(9), recorder, lane);
      loader.start();
      loader.begin_epoch(0);
      for (int i = 0; i < 3; ++i) kept.push_back(std::move(*loader.next()));
    }
    std::vector<std::uint8_t> image(image_bytes);
    Synthetic::fill(Seed(9), 0, kept[2].indices[1], image);
    CHECK_EQ(kept[2].images()[image_bytes + 3], image[3]);
    kept.clear();
  }
}

TEST("stopping does not wait for what was queued") {
  for (const char* mode : {"process", "thread"}) {
    Synthetic dataset(400);
    dataset.at_sample = [](std::size_t) { std::this_thread::sleep_for(20ms); };
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.mode = mode;
    options.num_workers = 2;
    options.batch_size = 1;
    options.prefetch_factor = 32;  // 640 ms of work for each
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    loader.begin_epoch(0);
    CHECK(loader.next());
    const std::int64_t begin = monotonic_ns();
    loader.stop();
    CHECK(monotonic_ns() - begin < 200'000'000);
  }
}

}  // namespace
}  // namespace misfire::dataloader
