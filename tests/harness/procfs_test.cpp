#include "harness/procfs.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "harness/topology.hpp"
#include "tests/check.hpp"

namespace misfire {
namespace {

/// A child that runs `body`, says so, and waits to be killed.
class Child {
 public:
  explicit Child(const std::function<void()>& body) {
    int ready[2];
    [[maybe_unused]] const int made = pipe(ready);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body();
      [[maybe_unused]] const ssize_t told = write(ready[1], "r", 1);
      for (;;) pause();
    }
    char byte = 0;
    [[maybe_unused]] const ssize_t heard = read(ready[0], &byte, 1);
    close(ready[0]);
    close(ready[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    for (const int pid : descendants(pid_)) kill(pid, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

const ProcessSnapshot* find(const std::vector<ProcessSnapshot>& all, int pid) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const ProcessSnapshot& p) { return p.pid == pid; });
  return found == all.end() ? nullptr : &*found;
}

TEST("every descendant is seen and nothing else") {
  int grandchild = 0;
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  const Child child([&] {
    prctl(PR_SET_NAME, "od) d (name");
    const pid_t below = fork();
    if (below == 0)
      for (;;) pause();
    [[maybe_unused]] const ssize_t told = write(ends[1], &below, sizeof below);
  });
  const Child other([] {});
  CHECK_EQ(read(ends[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  const auto mine = descendants(getpid());
  CHECK(std::find(mine.begin(), mine.end(), getpid()) == mine.end());
  for (const int pid : {static_cast<int>(child.pid()), grandchild, static_cast<int>(other.pid())})
    CHECK_EQ(std::count(mine.begin(), mine.end(), pid), 1);
  CHECK(std::find(mine.begin(), mine.end(), child.pid()) < std::find(mine.begin(), mine.end(), grandchild));
  const auto below = descendants(child.pid());
  CHECK_EQ(below.size(), 1U);
  CHECK_EQ(below.at(0), grandchild);

  const auto seen = snapshot_descendants(getpid(), false, {});
  const ProcessSnapshot* named = find(seen, child.pid());
  CHECK(named != nullptr);
  if (!named) return;
  CHECK_EQ(named->name, "od) d (name");
  CHECK_EQ(named->ppid, getpid());
  CHECK_EQ(named->state, 'S');
  const auto tasks =
      std::filesystem::directory_iterator("/proc/" + std::to_string(named->pid) + "/task");  // a sanitizer has one of its own
  CHECK_EQ(named->threads, std::distance(begin(tasks), end(tasks)));
  CHECK_EQ(named->rss_bytes, 0U);  // not asked for
  CHECK(named->start_seconds > 0);
  CHECK(named->voluntary_switches > 0);
}

TEST("masks are what the kernel says") {
  const std::vector<int> allowed = affinity_mask();
  const Child narrow([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(allowed.front()), &set);
    sched_setaffinity(0, sizeof set, &set);
  });
  const Child wide([] {});
  const auto seen = snapshot_descendants(getpid(), false, {});
  CHECK(find(seen, narrow.pid())->cpus_allowed == std::vector<int>{allowed.front()});
  CHECK(find(seen, wide.pid())->cpus_allowed == allowed);
  CHECK(!find(seen, wide.pid())->mems_allowed.empty());
}

TEST("a region is found and only what was written is private") {
  constexpr std::size_t bytes = 4 << 20;
  // Inaccessible pages around it: the kernel merges neighbours that are alike.
  void* outer = mmap(nullptr, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* memory = static_cast<char*>(outer) + 4096;
  CHECK_EQ(mprotect(memory, bytes, PROT_READ | PROT_WRITE), 0);
  std::memset(memory, 1, bytes);
  const std::vector<WatchedRegion> regions{{"table", reinterpret_cast<std::uint64_t>(memory), bytes}};
  const Child reader([] {});
  const Child writer([&] { std::memset(memory, 2, bytes / 2); });
  const auto seen = snapshot_descendants(getpid(), true, regions);
  const ProcessSnapshot *r = find(seen, reader.pid()), *w = find(seen, writer.pid());
  CHECK(r && w);
  CHECK_EQ(r->regions.size(), 1U);
  CHECK_EQ(r->regions.at(0).name, "table");
  CHECK_EQ(r->regions.at(0).rss_bytes, bytes);
  CHECK_EQ(r->regions.at(0).private_dirty_bytes, 0U);
  CHECK_EQ(w->regions.at(0).rss_bytes, bytes);
  CHECK_EQ(w->regions.at(0).private_dirty_bytes, bytes / 2);
  CHECK(w->pss_bytes >= r->pss_bytes + bytes / 4);
  CHECK(w->private_dirty_bytes >= bytes / 2);
  CHECK(w->rss_bytes >= bytes);
  std::uint64_t pages = 0;
  for (const std::uint64_t node : w->regions.at(0).pages_by_node) pages += node;
  if (!w->regions.at(0).pages_by_node.empty()) CHECK(pages > 0);
  munmap(outer, bytes + 8192);
}

TEST("processes that come and go do no harm") {
  std::atomic<bool> stop{false};
  const Child busy([] {
    const pid_t spawner = fork();
    if (spawner == 0)
      for (;;) {
        const pid_t brief = fork();
        if (brief == 0) _exit(0);
        waitpid(brief, nullptr, 0);
      }
  });
  for (int i = 0; i < 50; ++i)
    for (const ProcessSnapshot& process : snapshot_descendants(getpid(), true, {})) CHECK(process.pid > 0 && process.ppid > 0);
  CHECK(snapshot_descendants(2'000'000'000, true, {}).empty());
}

}  // namespace
}  // namespace misfire
