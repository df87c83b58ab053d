// Kills one process of a running trial's tree, whichever, at whatever moment, and looks at what is left two seconds later.
//
// The tree: this test -> driver -> holder -> launcher -> witness -> subject -> workers and a daemon that left its session.

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <thread>

#include "harness/clock.hpp"
#include "harness/files.hpp"
#include "harness/process.hpp"
#include "harness/procfs.hpp"
#include "harness/seed.hpp"
#include "tests/check.hpp"
#include "tests/harness/tiers.hpp"

namespace misfire {
namespace {

std::set<std::string> entries(const std::string& directory) {
  std::set<std::string> names;
  if (DIR* open = opendir(directory.c_str())) {
    while (const dirent* entry = readdir(open)) names.insert(entry->d_name);
    closedir(open);
  }
  names.erase(".");
  names.erase("..");
  return names;
}

std::string mounts() { return read_whole_file("/proc/self/mountinfo"); }

/// Processes whose command line holds `token`: forked ones inherit it, whoever their parent is now. Zombies have none.
std::vector<int> processes_with(const std::string& token) {
  std::vector<int> found;
  for (const std::string& name : entries("/proc")) {
    if (name.front() < '0' || name.front() > '9') continue;
    try {
      if (read_whole_file("/proc/" + name + "/cmdline").find(token) != std::string::npos) found.push_back(std::stoi(name));
    } catch (const std::exception&) {  // it has gone
    }
  }
  return found;
}

struct Left {
  std::vector<int> processes;
  std::set<std::string> shm, temporary, beside_record;
  bool mounts_same = true;
  bool nothing() const { return processes.empty() && shm.empty() && temporary.empty() && beside_record.empty() && mounts_same; }
};

/// This test's descendants down one branch of the tree, the driver first. The branch is known once there are workers: before that
/// a process that is only passing by (a probe) may stand at any depth.
std::vector<int> longest_branch() {
  std::map<int, int> parents;
  for (const ProcessSnapshot& process : snapshot_descendants(getpid(), false, {})) parents[process.pid] = process.ppid;
  std::vector<int> longest;
  for (const auto& [leaf, ignored] : parents) {
    std::vector<int> branch;
    for (auto at = parents.find(leaf); at != parents.end(); at = parents.find(at->second))
      branch.insert(branch.begin(), at->first);
    if (branch.size() > longest.size()) longest = branch;
  }
  return longest;
}

struct Round {
  std::string killed;  ///< "driver", "holder", "launcher", "witness", "subject", "worker"
  Left left;
  bool happened = false;
};

constexpr const char* roles[] = {"", "driver", "holder", "launcher", "witness", "subject", "worker"};

/// @param early  kill when a process of that depth first exists, whatever it is; else when the whole tree stands
Round round(Containment tier, std::size_t depth, bool early, std::int64_t delay_ns) {
  Round result;
  const TemporaryDirectory out;
  const std::string temporary = out.path() + "/tmp";
  make_directories(temporary);
  std::string ending = temporary + "-tiny";
  std::replace(ending.begin(), ending.end(), '/', '-');
  const std::string mounts_before = mounts();
  const pid_t driver = fork();
  if (driver == 0) {
    setenv("TMPDIR", temporary.c_str(), 1);
    execl(sibling_executable("trial_victim").c_str(), "trial_victim", "driver", containment_name(tier).data(),
          (out.path() + "/trial.jsonl").c_str(), nullptr);
    _exit(127);
  }
  int victim = 0;
  for (const std::int64_t give_up = monotonic_ns() + 5'000'000'000; victim == 0 && monotonic_ns() < give_up;) {
    const std::vector<int> branch = longest_branch();
    if (branch.size() >= (early ? depth : 6)) victim = branch[depth - 1];
  }
  if (victim != 0) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(delay_ns));  // the moment is what is tried
    result.happened = kill(victim, SIGKILL) == 0;
  }
  result.killed = std::string(roles[depth]) + (early ? " (early)" : "");
  // A worker's end does not end this trial, nor does that of a probe; the driver's does. One death at a time: what the first one
  // sets going has come to its end by then.
  if (depth == 6 || early) {
    siginfo_t ended{};
    for (int i = 0; i < 60 && ended.si_pid == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      waitid(P_PID, static_cast<id_t>(driver), &ended, WEXITED | WNOHANG | WNOWAIT);
    }
    if (ended.si_pid == 0) kill(driver, SIGKILL);
  }
  for (const std::int64_t end = monotonic_ns() + 2'000'000'000;;) {
    result.left = {};
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    result.left.processes = processes_with(out.path());
    for (const std::string& name : entries("/dev/shm"))
      if (name.ends_with(ending)) result.left.shm.insert(name);
    result.left.temporary = entries(temporary);
    result.left.beside_record = entries(out.path());
    for (const char* expected : {"tmp", "trial.jsonl", "trial.jsonl.raw"}) result.left.beside_record.erase(expected);
    result.left.mounts_same = mounts() == mounts_before;
    if (result.left.nothing() || monotonic_ns() >= end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (const int pid : result.left.processes) kill(pid, SIGKILL);
  waitpid(driver, nullptr, 0);
  return result;
}

bool can_be_had(Containment tier) {
  const pid_t child = fork();
  if (child == 0) {
    if (!allow_at_best(tier)) _exit(1);
    _exit(run_contained([&](const Contained& contained) { return contained.kind == tier ? 0 : 1; }));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void kill_one_after_another(Containment tier) {
  if (!can_be_had(tier)) SKIP(std::string(containment_name(tier)) + " cannot be had here");
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what loses its parents comes to us, and is seen
  Stream random = Seed(static_cast<std::uint64_t>(monotonic_ns())).stream("kill");
  int happened = 0;
  for (int i = 0; i < 48; ++i) {
    const bool early = i / 6 % 2 == 1;
    const std::int64_t delay = i < 6 ? 0 : static_cast<std::int64_t>(random.below(early ? 5'000'000 : 60'000'000));
    const Round result = round(tier, static_cast<std::size_t>(1 + i % 6), early, delay);
    happened += result.happened;
    std::string left;
    for (const int pid : result.left.processes) left += " process " + std::to_string(pid);
    for (const std::string& name : result.left.shm) left += " /dev/shm/" + name;
    for (const std::string& name : result.left.temporary) left += " " + name;
    for (const std::string& name : result.left.beside_record) left += " beside the record " + name;
    if (!result.left.mounts_same) left += " a mount";
    check::report(result.left.nothing(), __FILE__, __LINE__,
                  result.killed + " killed after " + std::to_string(delay / 1000) + " us leaves" + left);
  }
  CHECK(happened >= 30);  // early ones may have gone by themselves
}

TEST("in a user namespace nothing is left") { kill_one_after_another(Containment::user_namespace); }
TEST("in namespaces of root nothing is left") { kill_one_after_another(Containment::namespaces); }
TEST("below a subreaper nothing is left") { kill_one_after_another(Containment::subreaper); }

}  // namespace
}  // namespace misfire
