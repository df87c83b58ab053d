// Processes are known by a mark in their environment, which is inherited whatever they do to their parents, groups and sessions.
// Temporary files are known by where they lie. Shared memory of ours carries the id of the process that made it, mounts of ours
// a source that begins with our name, or a place below our directories.
//
// Not seen: a process that clears its environment, files written outside TMPDIR.

#include "suites/cli/host.hpp"

#include <dirent.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "harness/clock.hpp"
#include "harness/files.hpp"
#include "harness/text.hpp"

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

/// Named segments of Misfire's: "misfire-<pid>-<n>".
std::set<std::string> our_shared_memory() {
  std::set<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev/shm", error)) {
    const std::string name = entry.path().filename().string();
    struct stat status {};
    const bool by_pid = name.starts_with("misfire-") && name.size() > 8 && name[8] >= '0' && name[8] <= '9';
    if (by_pid && ::lstat(entry.path().c_str(), &status) == 0 && status.st_uid == ::geteuid())
      found.insert(entry.path().string());
  }
  return found;
}

bool maker_lives(const std::string& path) {
  const std::vector<std::string> parts = split(fs::path(path).filename().string(), '-');
  std::ifstream stream("/proc/" + (parts.size() > 1 ? parts[1] : "") + "/stat");
  std::string line;
  std::getline(stream, line);
  const auto name_end = line.rfind(')');  // "<pid> (<name>) <state> ..."
  return name_end != std::string::npos && line.size() > name_end + 2 && line[name_end + 2] != 'Z';
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
      mark_("MISFIRE_TRIAL=" + std::to_string(::getpid()) + "-" + std::to_string(monotonic_ns())),
      processes_(all_processes()),
      shared_memory_(our_shared_memory()),
      mounts_(our_mounts(directory_)) {
  make_directories(temporary_);
}

HostWatch::~HostWatch() {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

std::vector<std::string> HostWatch::environment() const { return {mark_, "TMPDIR=" + temporary_}; }

std::vector<std::string> HostWatch::clean() {
  std::vector<std::string> left;
  const auto marked = [&] {
    std::set<int> found;
    for (const int pid : all_processes())
      if (!processes_.contains(pid) && carries(pid, mark_)) found.insert(pid);
    return found;
  };
  std::set<int> processes = marked();
  for (const auto until = std::chrono::steady_clock::now() + patience;
       !processes.empty() && std::chrono::steady_clock::now() < until; processes = marked())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (const int pid : processes) {
    const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (handle < 0) continue;   // it has gone
    if (carries(pid, mark_)) {  // the number is still that of the same process
      left.push_back("process " + std::to_string(pid) + " (" + name_of(pid) + ")");
      ::syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
    }
    ::close(handle);
  }

  for (const std::string& path : our_shared_memory()) {
    if (shared_memory_.contains(path) || maker_lives(path)) continue;
    left.push_back("shared memory " + path);
    ::unlink(path.c_str());
  }

  for (const std::string& mount : our_mounts(directory_)) {
    if (mounts_.contains(mount)) continue;
    const std::string point = mount.substr(0, mount.find(' '));
    left.push_back("mount " + point);
    ::umount2(point.c_str(), MNT_DETACH);
  }

  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(temporary_, ignored)) {
    left.push_back("file " + entry.path().string());
    fs::remove_all(entry.path(), ignored);
  }
  return left;
}

}  // namespace misfire::cli
