#include "suites/dataloader/loader.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <map>
#include <memory>
#include <thread>

#include "harness/clock.hpp"
#include "harness/containment.hpp"
#include "harness/error.hpp"
#include "harness/procfs.hpp"
#include "suites/dataloader/sampler.hpp"
#include "tests/check.hpp"
#include "tests/suites/loader/synthetic.hpp"

namespace misfire::dataloader {
namespace {

struct Way {
  const char* mode;
  const char* start_method;
  const char* segments;
  const char* sharing;
  bool in_order;
  const char* assignment = "round_robin";
  std::string text() const {
    return std::string(mode) + " " + start_method + " " + segments + " " + sharing + (in_order ? " in order " : " unordered ") +
           assignment;
  }
};

std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (const bool in_order : {true, false})
    for (const char* segments : {"pooled", "fresh"}) {
      for (const char* start : {"fork", "forkserver"})
        for (const char* sharing : {"descriptor", "name"}) ways.push_back({"process", start, segments, sharing, in_order});
      ways.push_back({"thread", "fork", segments, "descriptor", in_order, "by_demand"});
    }
  return ways;
}

LoaderOptions options_of(const Way& way) {
  LoaderOptions options;
  options.mode = way.mode;
  options.start_method = way.start_method;
  options.segments = way.segments;
  options.sharing = way.sharing;
  options.in_order = way.in_order;
  options.assignment = way.assignment;
  options.num_workers = 3;
  options.batch_size = 4;
  return options;
}

/// What is left of a loader: children of this process, named files in /dev/shm.
void check_nothing_left(const std::string& where) {
  const auto children = descendants(getpid());
  check::report(children.empty(), __FILE__, __LINE__, where + ": " + std::to_string(children.size()) + " processes are left");
  for (const int pid : children) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  const auto files = our_shm_files();
  check::report(files.empty(), __FILE__, __LINE__, where + ": " + std::to_string(files.size()) + " files are left in /dev/shm");
  for (const std::string& file : files) unlink(("/dev/shm/" + file).c_str());
}

struct Prefix {
  Prefix() { setenv(shm_prefix_variable, ("misfire-loader-test-" + std::to_string(getpid())).c_str(), 1); }
} prefix;

using Delivered = std::map<std::uint32_t, std::vector<std::uint8_t>>;  ///< sample -> its bytes that count

std::vector<std::uint8_t> essence(std::span<const std::uint8_t> image) {
  std::vector<std::uint8_t> bytes;
  for (const std::size_t at : {std::size_t{0}, image_bytes / 2, image_bytes - 8})
    bytes.insert(bytes.end(), image.begin() + static_cast<std::ptrdiff_t>(at),
                 image.begin() + static_cast<std::ptrdiff_t>(at) + 8);
  return bytes;
}

/// Runs one epoch and checks each batch; every sample once.
Delivered run_epoch(Loader& loader, int epoch, std::vector<std::uint32_t>* order = nullptr) {
  Delivered delivered;
  loader.begin_epoch(epoch);
  while (auto batch = loader.next()) {
    if (order) order->push_back(batch->number);
    CHECK_EQ(batch->images().size(), batch->indices.size() * image_bytes);
    CHECK_EQ(batch->labels.size(), batch->indices.size());
    for (std::size_t i = 0; i < batch->indices.size(); ++i) {
      CHECK(delivered.emplace(batch->indices[i], essence(batch->images().subspan(i * image_bytes, image_bytes))).second);
      CHECK_EQ(batch->labels[i], Synthetic::label_of(batch->indices[i]));
    }
  }
  loader.end_epoch();
  return delivered;
}

Delivered expected(std::size_t size, Seed seed, int epoch) {
  Delivered all;
  std::vector<std::uint8_t> image(image_bytes);
  for (std::uint32_t index = 0; index < size; ++index) {
    Synthetic::fill(seed, epoch, index, image);
    all[index] = essence(image);
  }
  return all;
}

TEST("every way delivers each sample once with the same bytes, epoch after epoch") {
  const Synthetic dataset(50);
  for (const Way& way : all_ways())
    for (const bool persistent : {false, true}) {
      Recorder recorder;
      Lane lane;
      LoaderOptions options = options_of(way);
      options.persistent_workers = persistent;
      options.shuffle = true;
      auto loader = std::make_unique<Loader>(options, dataset, Seed(9), recorder, lane);
      loader->start();
      for (int epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::uint32_t> order;
        const Delivered delivered = run_epoch(*loader, epoch, &order);
        check::report(delivered == expected(50, Seed(9), epoch), __FILE__, __LINE__,
                      way.text() + ", epoch " + std::to_string(epoch));
        CHECK_EQ(order.size(), 13U);
        if (way.in_order) CHECK(std::is_sorted(order.begin(), order.end()));
      }
      loader.reset();
      check_nothing_left(way.text());
    }
}

TEST("without workers the consumer makes the same batches") {
  const Synthetic dataset(50);
  for (const char* segments : {"pooled", "fresh"}) {
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.num_workers = 0;
    options.batch_size = 4;
    options.segments = segments;
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    for (int epoch = 0; epoch < 2; ++epoch) CHECK(run_epoch(loader, epoch) == expected(50, Seed(9), epoch));
    check_nothing_left("no workers");
  }
}

TEST("ranks share the samples by the sampler's rules") {
  const Synthetic dataset(10);
  for (int rank = 0; rank < 3; ++rank) {
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.batch_size = 2;
    options.rank = rank;
    options.world_size = 3;
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    loader.begin_epoch(0);
    std::vector<std::size_t> seen;
    while (auto batch = loader.next()) seen.insert(seen.end(), batch->indices.begin(), batch->indices.end());
    CHECK(seen == sample_indices({10, false, rank, 3, true}, Seed(9), 0));
  }
}

TEST("a split stream gives each sample once, an unsplit one once a worker") {
  const Synthetic dataset(41, 7);
  for (const char* mode : {"process", "thread"})
    for (const bool split : {true, false})
      for (const bool in_order : {true, false}) {
        Recorder recorder;
        Lane lane;
        LoaderOptions options;
        options.mode = mode;
        options.num_workers = 3;
        options.batch_size = 4;
        options.iterable = true;
        options.split_shards = split;
        options.in_order = in_order;
        options.persistent_workers = true;
        Loader loader(options, dataset, Seed(9), recorder, lane);
        loader.start();
        for (int epoch = 0; epoch < 2; ++epoch) {
          std::map<std::uint32_t, int> times;
          loader.begin_epoch(epoch);
          while (auto batch = loader.next())
            for (const std::uint32_t index : batch->indices) ++times[index];
          loader.end_epoch();
          CHECK_EQ(times.size(), 41U);
          CHECK(std::all_of(times.begin(), times.end(), [&](const auto& t) { return t.second == (split ? 1 : 3); }));
        }
      }
}

TEST("a batch in use is not written to") {
  const Synthetic dataset(64);
  for (const char* mode : {"process", "thread"})
    for (const char* segments : {"pooled", "fresh"}) {
      Recorder recorder;
      Lane lane;
      LoaderOptions options;
      options.mode = mode;
      options.segments = segments;
      options.batch_size = 2;
      options.held_batches = 3;
      Loader loader(options, dataset, Seed(9), recorder, lane);
      loader.start();
      loader.begin_epoch(0);
      std::deque<Batch> held;
      std::vector<std::uint8_t> image(image_bytes);
      while (auto batch = loader.next()) {
        held.push_back(std::move(*batch));
        if (held.size() > 3) held.pop_front();
        for (const Batch& kept : held)
          for (std::size_t i = 0; i < kept.indices.size(); ++i) {
            Synthetic::fill(Seed(9), 0, kept.indices[i], image);
            CHECK(essence(kept.images().subspan(i * image_bytes, image_bytes)) == essence(image));
          }
      }
    }
}

TEST("a consumer that keeps more than it said is told, and does not wait for ever") {
  const Synthetic dataset(64);
  for (const char* mode : {"process", "thread"}) {
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.mode = mode;
    options.batch_size = 1;
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    loader.begin_epoch(0);
    std::vector<Batch> kept;
    CHECK_THROWS(
        [&] {
          while (auto batch = loader.next()) kept.push_back(std::move(*batch));
        }(),
        "held_batches");
    CHECK(kept.size() >= 2);
  }
}

/// One epoch that must end with WorkerDied; what it said.
struct Death {
  int worker = -1, signal = -1, exit_code = -1;
  std::string text;
  std::int64_t elapsed_ns = 0;
};
Death death_of(const Dataset& dataset, LoaderOptions options) {
  Recorder recorder;
  Lane lane;
  Loader loader(options, dataset, Seed(9), recorder, lane);
  loader.start();
  Death death;
  const std::int64_t start = monotonic_ns();
  try {
    loader.begin_epoch(0);
    while (loader.next()) {
    }
    check::report(false, __FILE__, __LINE__, "nobody died");
  } catch (const WorkerDied& died) {
    death = {died.worker, died.signal, died.exit_code, died.what(), monotonic_ns() - start};
  }
  return death;
}

TEST("a worker that ends is named with its cause, its sample and its batch, at once") {
  struct Cause {
    std::function<void()> action;
    int signal, exit_code;
    const char* said;
  };
  const Cause causes[] = {{[] { kill(getpid(), SIGKILL); }, SIGKILL, 0, "OOM killer"},
                          {[] { _exit(5); }, 0, 5, "exited with 5"},
                          {[] { raise_bus_error(); }, SIGBUS, 0, "a mapped file was cut short"}};
  for (const char* start : {"fork", "forkserver"})
    for (const char* segments : {"pooled", "fresh"})
      for (const char* sharing : {"descriptor", "name"})
        for (const Cause& cause : causes) {
          Synthetic dataset(64);
          dataset.at_sample = [&](std::size_t index) {
            if (index == 21) cause.action();
          };
          const Way way{"process", start, segments, sharing, true};
          const Death death = death_of(dataset, options_of(way));
          CHECK_EQ(death.signal, cause.signal);
          CHECK_EQ(death.exit_code, cause.exit_code);
          CHECK_EQ(death.worker, 2);  // sample 21 is in batch 5, 5 mod 3
          for (const std::string& said :
               {std::string(cause.said), std::string("worker 2"), std::string("sample 21 (sample-21) of batch 5")})
            check::report(death.text.find(said) != std::string::npos, __FILE__, __LINE__, "'" + said + "' in: " + death.text);
          CHECK(death.elapsed_ns < 1'500'000'000);
          check_nothing_left(way.text());
        }
}

TEST("an exception is told with worker and batch, in processes and threads") {
  for (const Way& way : all_ways()) {
    Synthetic dataset(64);
    dataset.at_sample = [](std::size_t index) {
      if (index == 21) throw std::runtime_error("the moon is full");
    };
    Recorder recorder;
    Lane lane;
    {
      Loader loader(options_of(way), dataset, Seed(9), recorder, lane);
      loader.start();
      CHECK_THROWS(run_epoch(loader, 0), "the moon is full");
    }
    check_nothing_left(way.text());
  }
}

TEST("a worker that cannot start says why") {
  for (const char* mode : {"process", "thread"}) {
    Synthetic dataset(64);
    dataset.at_start = [](int worker) {
      if (worker == 1) throw std::runtime_error("no shoes");
    };
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.mode = mode;
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    CHECK_THROWS(run_epoch(loader, 0), "no shoes");
  }
}

TEST("bad samples are left out, or end the epoch") {
  for (const char* mode : {"process", "thread"}) {
    Synthetic dataset(50);
    dataset.bad = {3, 20, 21, 22, 23, 49};  // 20 to 23 are one whole batch
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.mode = mode;
    options.batch_size = 4;
    {
      Loader loader(options, dataset, Seed(9), recorder, lane);
      loader.start();
      Delivered good = expected(50, Seed(9), 0);
      for (const std::size_t index : dataset.bad) good.erase(static_cast<std::uint32_t>(index));
      CHECK(run_epoch(loader, 0) == good);
    }
    options.on_bad_sample = "refuse";
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    CHECK_THROWS(run_epoch(loader, 0), "sample-3: it is bad");
  }
  check_nothing_left("bad samples");
}

TEST("a batch that does not come in time is an error, one that does is not") {
  for (const char* mode : {"process", "thread"}) {
    Synthetic dataset(12);
    std::atomic<bool> slow{true};
    dataset.at_sample = [&](std::size_t index) {
      if (index == 5) std::this_thread::sleep_for(std::chrono::milliseconds(slow ? 400 : 20));
    };
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.mode = mode;
    options.batch_size = 4;
    options.timeout = std::chrono::milliseconds(150);
    {
      Loader loader(options, dataset, Seed(9), recorder, lane);
      loader.start();
      CHECK_THROWS(run_epoch(loader, 0), "no batch came within 150");
    }
    slow = false;
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    CHECK_EQ(run_epoch(loader, 0).size(), 12U);
  }
  check_nothing_left("timeouts");
}

/// Runs `body` in a process with a /dev/shm of `mib`; its return value, 77 where that cannot be had.
int with_small_shm(int mib, const std::function<int()>& body) {
  return run_contained([&](const Contained& contained) {
    const std::string size = "size=" + std::to_string(mib) + "M";
    if (!contained.private_shm || mount("small", "/dev/shm", "tmpfs", 0, size.c_str()) != 0) return 77;
    try {
      return body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 70;
    }
  });
}

TEST("reserving turns a full /dev/shm into an error, not reserving into a bus error that says so") {
  for (const char* segments : {"pooled", "fresh"}) {
    int codes[2];
    for (const bool reserve : {true, false})
      codes[reserve] = with_small_shm(4, [&] {
        Synthetic dataset(512);
        dataset.touch_all = true;
        Recorder recorder;
        Lane lane;
        LoaderOptions options;
        options.segments = segments;
        options.reserve = reserve;
        options.batch_size = 16;
        options.num_workers = 2;
        options.prefetch_factor = 4;
        try {
          Loader loader(options, dataset, Seed(9), recorder, lane);
          loader.start();
          loader.begin_epoch(0);
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          while (loader.next()) {
          }
        } catch (const WorkerDied& died) {
          return died.signal == SIGBUS && std::string(died.what()).find("/dev/shm is") != std::string::npos ? 20 : 21;
        } catch (const Error& error) {
          return error.code() == ErrorCode::no_space ? 30 : 31;
        }
        return 40;
      });
    if (codes[0] == 77) SKIP("no mount namespaces here");
    CHECK_EQ(codes[true], 30);
    CHECK_EQ(codes[false], 20);
  }
}

TEST("stopping in the middle of an epoch leaves nothing") {
  for (const Way& way : all_ways()) {
    const Synthetic dataset(400);
    Recorder recorder;
    Lane lane;
    {
      Loader loader(options_of(way), dataset, Seed(9), recorder, lane);
      loader.start();
      loader.begin_epoch(0);
      for (int i = 0; i < 3; ++i) CHECK(loader.next());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // finished batches wait to be taken
    }
    check_nothing_left(way.text());
  }
}

TEST("a killed fork server is an error, and its workers go with it") {
  Synthetic dataset(4000);
  dataset.at_sample = [](std::size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  Recorder recorder;
  Lane lane;
  LoaderOptions options = options_of({"process", "forkserver", "pooled", "descriptor", true});
  {
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    loader.begin_epoch(0);
    CHECK(loader.next());
    const auto mine = snapshot_descendants(getpid(), false, {});
    for (const ProcessSnapshot& process : mine)
      if (process.ppid == getpid()) kill(process.pid, SIGKILL);
    CHECK_THROWS(
        [&] {
          while (loader.next()) {
          }
        }(),
        "");
  }
  for (int i = 0; i < 100 && !descendants(getpid()).empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  check_nothing_left("killed fork server");
}

TEST("workers go when the consumer is killed") {
  for (const char* start : {"fork", "forkserver"}) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    const pid_t consumer = fork();
    if (consumer == 0) {
      close(ends[0]);  // the other end is held by everything that lives
      const Synthetic dataset(4000);
      Recorder recorder;
      Lane lane;
      Loader loader(options_of({"process", start, "pooled", "descriptor", true}), dataset, Seed(9), recorder, lane);
      loader.start();
      loader.begin_epoch(0);
      if (!loader.next()) _exit(1);
      kill(getpid(), SIGKILL);
    }
    close(ends[1]);
    waitpid(consumer, nullptr, 0);
    char byte = 0;
    pollfd closed{ends[0], POLLIN, 0};
    CHECK_EQ(poll(&closed, 1, 2000), 1);
    CHECK_EQ(read(ends[0], &byte, 1), 0);  // end of file: nobody holds it any more
    close(ends[0]);
  }
}

}  // namespace
}  // namespace misfire::dataloader
