// Memory over many epochs: the slope of the proportional set size of consumer and workers, its interval including zero.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "harness/procfs.hpp"
#include "results/statistics.hpp"
#include "tests/check.hpp"
#include "tests/suites/loader/synthetic.hpp"

namespace misfire::dataloader {
namespace {

struct Case {
  const char* mode;
  const char* segments;
  bool persistent;
  std::size_t leak = 0;  ///< bytes that the consumer keeps each epoch
};

/// Bytes an epoch. The first epochs, in which allocators and rings fill, do not count.
Interval growth(const Case& tried, int epochs) {
  int told[2], heard[2];
  if (pipe(told) != 0 || pipe(heard) != 0) throw std::runtime_error("no pipes");
  const pid_t consumer = fork();
  if (consumer == 0) {
    Synthetic dataset(96);
    dataset.touch_all = true;
    Recorder recorder;
    Lane lane;
    LoaderOptions options;
    options.mode = tried.mode;
    options.segments = tried.segments;
    options.persistent_workers = tried.persistent;
    options.batch_size = 8;
    options.shuffle = true;
    Loader loader(options, dataset, Seed(1), recorder, lane);
    loader.start();
    std::vector<std::vector<char>> leaked;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      loader.begin_epoch(epoch);
      while (loader.next()) {
      }
      if (tried.leak > 0) leaked.emplace_back(tried.leak, 'x');
      char byte = 1;
      if (write(told[1], &byte, 1) != 1 || read(heard[0], &byte, 1) != 1) _exit(1);
      loader.end_epoch();
    }
    loader.stop();
    _exit(0);
  }
  constexpr int warm_up = 5;
  std::vector<double> epoch_numbers, bytes;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    char byte = 0;
    if (read(told[0], &byte, 1) != 1) break;
    double total = 0;
    for (const ProcessSnapshot& process : snapshot_descendants(getpid(), true, {}))
      total += static_cast<double>(process.pss_bytes);
    if (epoch >= warm_up) {
      epoch_numbers.push_back(epoch);
      bytes.push_back(total);
    }
    if (write(heard[1], &byte, 1) != 1) break;
  }
  int status = 0;
  waitpid(consumer, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  for (const int end : {told[0], told[1], heard[0], heard[1]}) close(end);
  CHECK_EQ(bytes.size(), static_cast<std::size_t>(epochs - warm_up));
  return slope_interval(epoch_numbers, bytes, 0.99);
}

void check_growth(int epochs) {
  for (const Case& tried : {Case{"process", "pooled", true}, Case{"process", "pooled", false}, Case{"process", "fresh", true},
                            Case{"process", "fresh", false}, Case{"thread", "pooled", true}}) {
    const Interval slope = growth(tried, epochs);
    check::report(slope.low <= 0, __FILE__, __LINE__,
                  std::string(tried.mode) + " " + tried.segments + (tried.persistent ? " persistent" : "") + ": " +
                      std::to_string(slope.estimate) + " bytes an epoch, at least " + std::to_string(slope.low));
  }
  const Interval leak = growth({"process", "pooled", true, 256 << 10}, epochs);
  CHECK(leak.low > 0);
  CHECK(leak.low <= 270e3 && leak.high >= 250e3);
}

TEST("memory does not grow over 20 epochs, and growth would be seen") { check_growth(20); }
TEST("memory does not grow over 100 epochs, and growth would be seen") { check_growth(100); }

}  // namespace
}  // namespace misfire::dataloader
