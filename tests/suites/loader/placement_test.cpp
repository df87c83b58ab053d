// Where workers run: what the kernel says of a worker, not what was asked for.

#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>

#include "harness/topology.hpp"
#include "tests/check.hpp"
#include "tests/suites/loader/synthetic.hpp"

namespace misfire::dataloader {
namespace {

constexpr int workers = 3;

/// CPU mask of each worker, as it saw it itself; bits of the first 64 CPUs.
std::array<std::uint64_t, workers> masks(const LoaderOptions& wanted) {
  auto* seen = static_cast<std::atomic<std::uint64_t>*>(
      mmap(nullptr, sizeof(std::uint64_t) * workers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Synthetic dataset(12);
  dataset.at_start = [&](int worker) {
    std::uint64_t mask = 0;
    for (const int cpu : affinity_mask())
      if (cpu < 64) mask |= std::uint64_t{1} << cpu;
    seen[worker] = mask;
  };
  Recorder recorder;
  Lane lane;
  LoaderOptions options = wanted;
  options.num_workers = workers;
  options.batch_size = 2;
  {
    Loader loader(options, dataset, Seed(9), recorder, lane);
    loader.start();
    loader.begin_epoch(0);
    while (loader.next()) {
    }
    loader.end_epoch();
  }
  std::array<std::uint64_t, workers> result{};
  for (int worker = 0; worker < workers; ++worker) result[static_cast<std::size_t>(worker)] = seen[worker];
  munmap(static_cast<void*>(seen), sizeof(std::uint64_t) * workers);
  return result;
}

std::uint64_t mask_of(const std::vector<int>& cpus) {
  std::uint64_t mask = 0;
  for (const int cpu : cpus)
    if (cpu < 64) mask |= std::uint64_t{1} << cpu;
  return mask;
}

TEST("placement reaches processes and threads, and leaves the consumer alone") {
  const std::vector<int> mine = affinity_mask();
  if (mine.back() >= 64) SKIP("CPUs beyond 64 are not looked at here");
  for (const char* mode : {"process", "thread"}) {
    LoaderOptions options;
    options.mode = mode;
    for (const std::uint64_t mask : masks(options)) CHECK_EQ(mask, mask_of(mine));

    options.affinity = "explicit";
    options.affinity_cpus = cpu_list_text(mine);
    const auto listed = masks(options);
    for (std::size_t worker = 0; worker < workers; ++worker) CHECK_EQ(listed[worker], mask_of({mine[worker % mine.size()]}));
    CHECK(affinity_mask() == mine);

    options.affinity = "per_node";
    options.affinity_cpus.clear();
    const Topology machine = Topology::of_this_machine();
    const auto nodes = masks(options);
    for (int worker = 0; worker < workers; ++worker)
      CHECK_EQ(nodes[static_cast<std::size_t>(worker)],
               mask_of(cpus_for_worker(machine, {.placement = Placement::per_node}, worker)));
  }
}

TEST("an explicit placement is not bound by the mask that an outer layer left") {
  const std::vector<int> mine = affinity_mask();
  if (mine.size() < 2 || mine.back() >= 64) SKIP("needs two CPUs, all below 64");
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(mine[0]), &one);
  CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  LoaderOptions options;
  for (const std::uint64_t mask : masks(options)) CHECK_EQ(mask, mask_of({mine[0]}));  // inherited
  options.affinity = "explicit";
  const auto spread = masks(options);
  CHECK_EQ(spread[0] | spread[1] | spread[2], mask_of(mine) & (spread[0] | spread[1] | spread[2]));
  CHECK(spread[0] != spread[1]);
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const int cpu : mine) CPU_SET(static_cast<std::size_t>(cpu), &all);
  sched_setaffinity(0, sizeof all, &all);
}

TEST("a CPU that is not there is an error with its number") {
  for (const char* mode : {"process", "thread"}) {
    LoaderOptions options;
    options.mode = mode;
    options.affinity = "explicit";
    options.affinity_cpus = "1023";
    CHECK_THROWS(masks(options), "1023");
  }
}

}  // namespace
}  // namespace misfire::dataloader
