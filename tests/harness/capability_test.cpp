// Goal: each capability is found by trying it, says what was tried and how to get it, and nothing of the attempt stays.
// Method: this machine, and children of this test from which something was taken away.
#include "harness/capability.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "harness/cgroup.hpp"
#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/process.hpp"
#include "harness/topology.hpp"
#include "misfire_config.hpp"
#include "tests/check.hpp"
#include "tests/harness/self.hpp"

using namespace misfire;

namespace {

// A capability as a child finds it that first runs `take_away`; `possible` says whether it could be taken away.
struct Found {
  bool present = false, possible = false;
  std::string reason, remedy;
};
Found in_child(std::string_view name, const std::function<bool()>& take_away) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/answer";
  const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const pid_t child = ::fork();
  if (child == 0) {
    if (!take_away()) ::_exit(2);
    const Capability found = probe_capability(name);
    const std::string text = (found.present ? "1\n" : "0\n") + found.reason + "\n" + found.remedy;
    ::_exit(::write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(out);
  Found found;
  found.possible = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  const std::string text = read_whole_file(file);
  if (const auto line = text.find('\n', 2); line != std::string::npos) {
    found.present = text[0] == '1';
    found.reason = text.substr(2, line - 2);
    found.remedy = text.substr(line + 1);
  }
  return found;
}

std::set<std::string> mounts_and_groups() {
  std::set<std::string> all;
  all.insert(read_whole_file("/proc/self/mounts"));
  if (const auto group = control_group("memory"))
    for (const auto& entry : std::filesystem::directory_iterator(group->directory))
      if (entry.is_directory()) all.insert(entry.path());
  return all;
}

}  // namespace

TEST("every capability says what was tried, a missing one how to get it, and nothing is left behind") {
  const auto before = mounts_and_groups();
  std::set<std::string_view> names;
  for (std::string_view name : capability_names()) {
    const Capability& found = capability(name);
    std::printf("%-15s %s  %s%s%s\n", std::string(name).c_str(), found.present ? "yes" : "no ", found.reason.c_str(),
                found.present ? "" : "\n                     -> ", found.remedy.c_str());
    CHECK_EQ(found.name, name);
    CHECK(!found.reason.empty());
    CHECK(!found.unlocks.empty());
    CHECK_EQ(found.present, found.remedy.empty());
    CHECK(found.reason.find('\n') == std::string::npos);
    CHECK(&found == &capability(name));
    names.insert(name);
  }
  for (const char* name : {"userns", "gpu", "cuda_toolkit", "root", "fuse", "two_cpus", "two_numa_nodes", "memory_cgroup", "mpi",
                           "fio", "perf_event", "photographs"})
    CHECK(names.contains(name));
  CHECK(mounts_and_groups() == before);
  CHECK_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST("an unknown capability is refused with the nearest name") {
  CHECK_THROWS(capability("two_cpu"), "unknown capability 'two_cpu' (did you mean 'two_cpus'?)");
  CHECK_THROWS(probe_capability("x"), "unknown capability 'x'");
}

TEST("on one CPU two are missing") {
  const Found found = in_child("two_cpus", [] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(affinity_mask().back(), &one);
    return ::sched_setaffinity(0, sizeof one, &one) == 0;
  });
  CHECK(found.possible);
  CHECK(!found.present);
  CHECK(found.reason.find("may run on CPUs " + std::to_string(affinity_mask().back())) != std::string::npos);
  CHECK(found.remedy.find("affinity mask") != std::string::npos);
}

TEST("in a chroot user namespaces are missing, and the chroot is named") {
  const TemporaryDirectory directory;
  const Found found = in_child("userns", [&] {
    const std::string root = directory.path() + "/root";
    make_directories(root + "/proc");
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    if (::mount("/proc", (root + "/proc").c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return false;
    return ::chroot(root.c_str()) == 0 && ::chdir("/") == 0;
  });
  if (!found.possible) SKIP("chroot needs root");
  CHECK(!found.present);
  CHECK(found.reason.find("chroot") != std::string::npos);
  CHECK(found.remedy.find("pivot_root") != std::string::npos);
}

TEST("where parts of /proc are hidden, as in a container, no trial can have its own") {
  const Found found = in_child("userns", [] {
    const std::string user = std::to_string(::geteuid()), group = std::to_string(::getegid());
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << user << ' ' << user << " 1";
    std::ofstream("/proc/self/gid_map") << group << ' ' << group << " 1";
    return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("none", "/proc/sys", "tmpfs", 0, "size=1m") == 0;  // what container engines do with /proc/kcore and others
  });
  if (!found.possible) SKIP("needs a user namespace to hide it in");
  CHECK(!found.present);
  CHECK(found.reason.find("mount /proc: Operation not permitted (the container hides parts of /proc)") != std::string::npos);
  CHECK(found.remedy.find("procMount: Unmasked") != std::string::npos);
}

TEST("when no user namespaces are left, the sysctl is named") {
  const Found found = in_child("userns", [] {
    // A namespace of our own has a limit of its own, which we may set to 0.
    if (::unshare(CLONE_NEWUSER) != 0) return false;
    const int limit = ::open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
    const bool set = limit >= 0 && ::write(limit, "0", 1) == 1;
    ::close(limit);
    return set;
  });
  if (!found.possible) SKIP("needs a user namespace to take them away in");
  CHECK(!found.present);
  CHECK(found.reason.find("user.max_user_namespaces is 0") != std::string::npos);
  CHECK(found.remedy.find("sysctl -w user.max_user_namespaces") != std::string::npos);
}

TEST("programs that are not in PATH are missing, with their package") {
  for (const char* name : {"fio", "mpi"}) {
    const Found found = in_child(name, [] { return ::setenv("PATH", "/none", 1) == 0; });
    CHECK(found.possible);
    CHECK(!found.present);
    CHECK(found.reason.find("in PATH") != std::string::npos);
    CHECK(found.remedy.find("apt-get install") != std::string::npos);
  }
}

TEST("a launcher that cannot launch is missing, whatever its version") {
  const TemporaryDirectory directory;
  const std::string program = directory.path() + "/mpirun";
  write_file_atomically(program, "#!/bin/sh\n[ \"$1\" = --version ] && { echo mpirun 1; exit 0; }\necho no slots >&2\nexit 1\n");
  ::chmod(program.c_str(), 0755);
  const Found found =
      in_child("mpi", [&] { return ::setenv("PATH", (directory.path() + ":" + std::getenv("PATH")).c_str(), 1) == 0; });
  CHECK(!found.present);
  CHECK(found.reason.find("failed: no slots") != std::string::npos);
}

// The role of the next test: libcuda.so.1 is searched along LD_LIBRARY_PATH as it was when the program started.
TEST("prints what it finds of GPUs") {
  if (std::getenv("MISFIRE_TEST_ROLE") == nullptr) SKIP("started by another test");
  const Capability found = probe_capability("gpu");
  std::printf("present %d: %s -> %s\n", found.present ? 1 : 0, found.reason.c_str(), found.remedy.c_str());
  CHECK(true);
}

TEST("a GPU counts when its driver answers, and each of the driver's failures has its own remedy") {
  skip_unless_this_program_starts();
  const auto with = [](std::vector<std::string> environment) {
    environment.insert(environment.end(), {"LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER, "MISFIRE_TEST_ROLE=gpu"});
    return run_process({.argv = {self_executable(), "prints what it finds of GPUs"}, .environment = environment}).out;
  };
  const auto contains = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  CHECK(contains(with({"FAKE_CUDA_VERSION=99090"}), "present 1: 8 x NVIDIA H200, driver 1 for CUDA 99.9"));
  CHECK(contains(with({"FAKE_CUDA_DEVICES=0"}), "present 0: the driver is there and sees no device -> "));
  CHECK(contains(with({"FAKE_CUDA_ERROR=100"}), "present 0: cuInit: CUDA_ERROR_NO_DEVICE"));
  CHECK(contains(with({"FAKE_CUDA_ERROR=803"}), "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"));
  CHECK(contains(with({"FAKE_CUDA_ERROR=803"}), "-> reboot"));
  if (MISFIRE_HAVE_CUDA) CHECK(contains(with({"FAKE_CUDA_VERSION=9020"}), "too old for the CUDA Toolkit"));
}

namespace {

// A hierarchy of control groups as files, and this process's place in it.
struct Groups {
  TemporaryDirectory directory;
  std::string proc = directory.path() + "/proc", mount = directory.path() + "/cgroup";
  Groups(const std::string& membership, const std::string& mount_line,
         const std::vector<std::pair<std::string, std::string>>& files) {
    make_directories(proc);
    write_file_atomically(proc + "/cgroup", membership);
    write_file_atomically(proc + "/mountinfo",
                          mount_line.substr(0, mount_line.find('@')) + mount + mount_line.substr(mount_line.find('@') + 1));
    for (const auto& [path, content] : files) {
      make_directories(std::filesystem::path(mount + path).parent_path().string());
      write_file_atomically(mount + path, content);
    }
  }
};

}  // namespace

TEST("the tightest limit on the way up counts, in the unified hierarchy") {
  const Groups groups("0::/a/b\n", "31 23 0:28 / @ rw - cgroup2 cgroup2 rw\n",
                      {{"/cgroup.controllers", "cpu memory\n"},
                       {"/a/cpu.max", "150000 100000\n"},
                       {"/a/b/cpu.max", "max 100000\n"},
                       {"/a/memory.max", "max\n"},
                       {"/a/b/memory.max", "1073741824\n"}});
  const auto cpu = control_group("cpu", groups.proc), memory = control_group("memory", groups.proc);
  CHECK(cpu.has_value() && memory.has_value());
  CHECK_EQ(cpu->version, 2);
  CHECK_EQ(cpu->directory, groups.mount + "/a/b");
  CHECK_EQ(cpu_quota(cpu).value_or(0), 1.5);
  CHECK_EQ(memory_limit(memory).value_or(0), 1ULL << 30);
  CHECK(!control_group("io", groups.proc).has_value());
}

TEST("hierarchies of version 1, and no limit in any") {
  const Groups groups("4:memory:/pod/c\n3:cpu,cpuacct:/\n0::/\n", "31 23 0:28 /pod @ rw - cgroup cgroup rw,memory\n",
                      {{"/c/memory.limit_in_bytes", "9223372036854771712\n"}, {"/memory.limit_in_bytes", "2147483648\n"}});
  const auto memory = control_group("memory", groups.proc);
  CHECK(memory.has_value());
  CHECK_EQ(memory->version, 1);
  CHECK_EQ(memory->directory, groups.mount + "/c");  // a container sees its part only
  CHECK_EQ(memory_limit(memory).value_or(0), 2ULL << 30);
  CHECK(!control_group("cpu", groups.proc).has_value());
  CHECK(!cpu_quota(std::nullopt).has_value());
  const Groups unlimited("0::/\n", "31 23 0:28 / @ rw - cgroup2 cgroup2 rw\n", {{"/cgroup.controllers", "memory\n"}});
  CHECK(control_group("memory", unlimited.proc).has_value());
  CHECK(!memory_limit(control_group("memory", unlimited.proc)).has_value());
}

TEST("kills of the OOM killer are counted where either hierarchy counts them") {
  const Groups unified(
      "0::/a\n", "31 23 0:28 / @ rw - cgroup2 cgroup2 rw\n",
      {{"/cgroup.controllers", "memory\n"}, {"/a/memory.events", "low 0\noom 7\noom_kill 3\noom_group_kill 1\n"}});
  CHECK_EQ(oom_kills(control_group("memory", unified.proc)).value_or(99), 3U);
  const Groups old("4:memory:/\n", "31 23 0:28 / @ rw - cgroup cgroup rw,memory\n",
                   {{"/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"}});
  CHECK_EQ(oom_kills(control_group("memory", old.proc)).value_or(99), 0U);
  const Groups silent("0::/\n", "31 23 0:28 / @ rw - cgroup2 cgroup2 rw\n", {{"/cgroup.controllers", "memory\n"}});
  CHECK(!oom_kills(control_group("memory", silent.proc)).has_value());
  CHECK(!oom_kills(std::nullopt).has_value());
}
