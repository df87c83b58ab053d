// The sample table: two layouts of the same records, and what reading them does to the pages of a forked process.

#include "suites/dataloader/sample_table.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/check.hpp"

using namespace misfire::dataloader;

namespace {

/// Private dirty bytes of the mapping that begins at `address`, in this process.
long private_dirty_kib(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  std::ostringstream start;
  start << std::hex << reinterpret_cast<std::uintptr_t>(address) << '-';
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.rfind(start.str(), 0) == 0) here = true;
    if (here && line.rfind("Private_Dirty:", 0) == 0) return std::stol(line.substr(14));
  }
  return -1;
}

/// What a forked child's pages of the table become after it read everything.
long after_reading_in_child(const SampleTable& table, std::size_t samples, double fraction) {
  int ends[2];
  if (pipe(ends) != 0) return -2;
  const pid_t child = fork();
  if (child == 0) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < samples; ++i) sum += table.read(i, fraction);
    const long kib = private_dirty_kib(table.memory().data()) + (sum == 1 ? 1 : 0);
    _exit(write(ends[1], &kib, sizeof kib) == sizeof kib ? 0 : 1);
  }
  long kib = -3;
  close(ends[1]);
  if (read(ends[0], &kib, sizeof kib) != sizeof kib) kib = -4;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return kib;
}

constexpr std::uint64_t mib = 1 << 20;

TEST("both layouts hold the same records") {
  const SampleTable flat(SampleTable::Layout::flat, mib, 16), objects(SampleTable::Layout::objects, mib, 16);
  CHECK_EQ(flat.records(), mib / SampleTable::record_bytes);
  for (std::size_t sample = 0; sample < 16; ++sample) CHECK_EQ(flat.read(sample, 1), objects.read(sample, 1));
  CHECK(flat.read(0, 1) != flat.read(1, 1));
  CHECK_EQ(flat.read(3, 0), 0U);
}

TEST("reading objects makes every page private in a forked reader; reading a flat table none") {
  const SampleTable flat(SampleTable::Layout::flat, 8 * mib, 16), objects(SampleTable::Layout::objects, 8 * mib, 16);
  CHECK(after_reading_in_child(objects, 16, 1) >= 8 * 1024 * 95 / 100);
  CHECK(after_reading_in_child(flat, 16, 1) <= 64);
}

TEST("private pages follow the share of records read") {
  const SampleTable objects(SampleTable::Layout::objects, 8 * mib, 16);
  CHECK_EQ(after_reading_in_child(objects, 16, 0), 0);
  const long half = after_reading_in_child(objects, 16, 0.5);
  CHECK(half >= 8 * 1024 * 45 / 100);
  CHECK(half <= 8 * 1024 * 55 / 100);
}

}  // namespace
