// Processes are known by a mark in their environment, which is inherited whatever they do to their parents, groups and sessions.
// Temporary files are known by where they lie, shared memory by the first part of its name, which the trial is told; mounts of
// ours have a source that begins with our name, or a place below our directories.
//
// Not seen: a process that clears its environment, files written outside TMPDIR.

#include "suites/cli/host.hpp"

#include <dirent.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "harness/clock.hpp"
#include "harness/containment.hpp"
#include "harness/files.hpp"

namespace misfire::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto patience = std::chrono::seconds(1);

std::set<int> all_processes() {
  std::set<int> found;
  if (DIR* directory = ::opendir("/proc")) {
    while (const dirent* entry = ::readdir(directory))
      if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') found.insert(std::atoi(entry->d_name));
    ::closedir(directory);
  }
  return found;
}

bool carries(int pid, const std::string& mark) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  for (std::string entry; std::getline(stream, entry, '\0');)
    if (entry == mark) return true;
  return false;
}

std::string name_of(int pid) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(stream, name);
  return name;
}

/// "<mount point> <source>" of each mount that could be ours.
std::set<std::string> our_mounts(const std::string& directory) {
  std::set<std::string> found;
  std::ifstream stream("/proc/self/mountinfo");
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string word, point, source;
    for (int i = 0; i < 5 && words >> word; ++i) point = word;
    while (words >> word && word != "-") {
    }
    words >> word >> source;
    if (source.starts_with("misfire") || point.starts_with(directory + "/") || point.find("/misfire-") != std::string::npos)
      found.insert(point + " " + source);
  }
  return found;
}

}  // namespace

HostWatch::HostWatch(const std::string& directory)
    : directory_(fs::absolute(directory).lexically_normal().string()),
      temporary_(directory_ + "/tmp"),
      name_("misfire-" + std::to_string(::getpid()) + "-" + std::to_string(monotonic_ns())),
      processes_(all_processes()),
      mounts_(our_mounts(directory_)) {
  make_directories(temporary_);
}

HostWatch::~HostWatch() {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

std::string HostWatch::mark() const { return "MISFIRE_TRIAL=" + name_; }

std::vector<std::string> HostWatch::environment() const {
  return {mark(), "TMPDIR=" + temporary_, std::string(shm_prefix_variable) + "=" + name_};
}

std::vector<std::string> HostWatch::clean() {
  std::vector<std::string> left;
  const auto marked = [&] {
    std::set<int> found;
    for (const int pid : all_processes())
      if (!processes_.contains(pid) && carries(pid, mark())) found.insert(pid);
    return found;
  };
  std::set<int> processes = marked();
  for (const auto until = std::chrono::steady_clock::now() + patience;
       !processes.empty() && std::chrono::steady_clock::now() < until; processes = marked())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (const int pid : processes) {
    const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (handle < 0) continue;    // it has gone
    if (carries(pid, mark())) {  // the number is still that of the same process
      left.push_back("process " + std::to_string(pid) + " (" + name_of(pid) + ")");
      ::syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
    }
    ::close(handle);
  }

  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/dev/shm", ignored)) {
    if (!entry.path().filename().string().starts_with(name_)) continue;
    left.push_back("shared memory " + entry.path().string());
    ::unlink(entry.path().c_str());
  }

  for (const std::string& mount : our_mounts(directory_)) {
    if (mounts_.contains(mount)) continue;
    const std::string point = mount.substr(0, mount.find(' '));
    left.push_back("mount " + point);
    ::umount2(point.c_str(), MNT_DETACH);
  }

  for (const auto& entry : fs::directory_iterator(temporary_, ignored)) {
    left.push_back("file " + entry.path().string());
    fs::remove_all(entry.path(), ignored);
  }
  return left;
}

}  // namespace misfire::cli
