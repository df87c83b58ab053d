// The chain that holds a trial: caller -> launcher (makes the namespaces) -> first process in them -> everything else.
//
// A PID namespace dies with its first process, a mount or IPC namespace with its last, so the kernel cleans up whatever happens
// to us. Without namespaces the launcher stays as a guard: it outlives the caller, gets every orphan, and removes everything when
// the first process or the caller ends. When the guard itself is killed, the caller does the same. So whichever one process is
// killed, nothing stays; only when both are killed in the same moment can an orphan.

#include "harness/containment.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "harness/error.hpp"
#include "harness/procfs.hpp"
#include "harness/seed.hpp"

namespace misfire {
namespace {

/// Why a step of making namespaces failed, as the launcher reports it; empty when it worked.
std::string failed(std::string_view what) { return std::string(what) + ": " + std::strerror(errno); }

bool write_text(const char* path, const std::string& text) {
  const int descriptor = open(path, O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool written = write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(descriptor);
  return written;
}

std::string enter_namespaces(bool user) {
  const uid_t uid = getuid();
  const gid_t gid = getgid();
  if (unshare((user ? CLONE_NEWUSER : 0) | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC) != 0) return failed("unshare(2)");
  if (user) {
    if (!write_text("/proc/self/setgroups", "deny")) return failed("/proc/self/setgroups");
    if (!write_text("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1"))
      return failed("/proc/self/uid_map");
    if (!write_text("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1"))
      return failed("/proc/self/gid_map");
  }
  return {};
}

/// Makes every mount of this namespace private, so that those made in it stay in it.
std::string detach_mounts() {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) return {};
  if (errno != EINVAL) return failed("make mounts private");
  // In a chroot "/" may be no mount point, and the mount that holds it is out of reach. Entering the namespace that we are in
  // already makes its root ours; then back.
  const int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  const int ourselves = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (root < 0 || here < 0 || ourselves < 0) return failed("make mounts private in a chroot");
  if (setns(ourselves, CLONE_NEWNS) != 0) return failed("leave the chroot");
  const bool made = mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  const std::string why = made ? "" : failed("make mounts private outside of the chroot");
  if (fchdir(root) != 0 || chroot(".") != 0 || fchdir(here) != 0) return failed("return to the chroot");
  for (const int descriptor : {root, here, ourselves}) close(descriptor);
  return why;
}

/// Run by the first process of the namespaces.
std::string make_private_mounts() {
  if (const std::string why = detach_mounts(); !why.empty()) return why;
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) return failed("mount /proc");
  if (mount(private_shm_source, "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "size=50%,mode=1777") != 0)
    return failed("mount /dev/shm");
  return {};
}

/// @param spared  processes that were there before
void kill_descendants(const std::vector<int>& spared = {}) {
  for (int round = 0; round < 1000; ++round) {
    std::vector<int> left = descendants(getpid());
    std::erase_if(left, [&](int pid) { return std::find(spared.begin(), spared.end(), pid) != spared.end(); });
    if (left.empty()) return;
    for (const int pid : left) kill(pid, SIGKILL);
    for (const int pid : left) waitpid(pid, nullptr, WNOHANG);  // those that are our children, by now or by the next round
  }
}

/// What a trial without namespaces leaves in file systems: its directory, and files in /dev/shm whose names begin like it.
struct Traces {
  std::string name, directory;
  Traces() {
    const char* given = std::getenv(shm_prefix_variable);
    char text[32];
    std::snprintf(text, sizeof text, "-%016llx", static_cast<unsigned long long>(Seed::random().value()));
    name = std::string(given ? given : "misfire") + text;
    std::error_code ignored;
    directory = (std::filesystem::temp_directory_path(ignored) / name).string();
  }
  std::string make() const {
    if (mkdir(directory.c_str(), 0700) != 0) return failed("make the directory " + directory);
    setenv(shm_prefix_variable, name.c_str(), 1);
    return {};
  }
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored))
      if (entry.path().filename().string().starts_with(name)) std::filesystem::remove(entry.path(), ignored);
  }
};

int status_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return 128;
  }
  return status_code(status);
}

/// A pipe whose closing tells the other side that we died.
struct Lifeline {
  int ends[2] = {-1, -1};
  Lifeline() {
    if (pipe2(ends, O_CLOEXEC) != 0) throw system_error("make a pipe", "", errno);
  }
  ~Lifeline() {
    if (ends[0] >= 0) close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
  }
  void keep_read_end() {
    close(ends[1]);
    ends[1] = -1;
  }
};

}  // namespace

std::string_view containment_name(Containment containment) noexcept {
  switch (containment) {
    case Containment::user_namespace:
      return "user_namespace";
    case Containment::namespaces:
      return "namespaces";
    case Containment::subreaper:
      return "subreaper";
  }
  return "unknown";
}

void die_with_parent(int parent_alive) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pollfd poller{parent_alive, POLLIN, 0};
  if (poll(&poller, 1, 0) > 0 && (poller.revents & POLLHUP)) _exit(128 + SIGKILL);
}

namespace {

/// The launcher of a trial without namespaces.
[[noreturn]] void guard(const std::function<int(const Contained&)>& body, Contained contained, const Traces& traces,
                        int caller_alive, const std::function<void(const std::string&)>& tell) {
  setsid();  // signals to the caller's process group (an interrupt, the driver's clearing up) are not for us
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (const std::string why = traces.make(); !why.empty()) {
    tell(why);
    _exit(1);
  }
  contained.directory = traces.directory;
  Lifeline below;
  const pid_t first = fork();
  if (first == 0) {
    below.keep_read_end();
    die_with_parent(below.ends[0]);
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans stay below the first process, where it sees them
    tell("ok");
    _exit(body(contained));
  }
  tell(first < 0 ? failed("fork(2)") : "");
  int code = 1;
  if (first > 0) {
    const int ended = static_cast<int>(syscall(SYS_pidfd_open, first, 0));
    pollfd polled[2] = {{caller_alive, POLLIN, 0}, {ended, POLLIN, 0}};
    while (poll(polled, 2, -1) < 0 && errno == EINTR) {
    }
    if (!(polled[1].revents & POLLIN)) kill(first, SIGKILL);
    code = wait_for(first);
  }
  kill_descendants();
  traces.remove();
  _exit(code);
}

}  // namespace

int run_contained(const std::function<int(const Contained&)>& body) {
  Contained contained;
  for (const Containment kind : {Containment::user_namespace, Containment::namespaces, Containment::subreaper}) {
    if (kind == Containment::namespaces && geteuid() != 0) {
      contained.refused.emplace_back("namespaces: needs root");
      continue;
    }
    contained.kind = kind;
    const Traces traces;
    const std::vector<int> before = kind == Containment::subreaper ? descendants(getpid()) : std::vector<int>();
    int was_subreaper = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper);
    if (kind == Containment::subreaper) prctl(PR_SET_CHILD_SUBREAPER, 1);
    Lifeline ours;
    int verdict[2];  // one line from below: why this containment cannot be had, or "ok"
    if (pipe2(verdict, O_CLOEXEC) != 0) throw system_error("make a pipe", "", errno);
    const pid_t launcher = fork();
    if (launcher < 0) throw system_error("start a process", "", errno);
    if (launcher == 0) {
      ours.keep_read_end();
      close(verdict[0]);
      if (kind != Containment::subreaper) die_with_parent(ours.ends[0]);
      const auto tell = [&](const std::string& line) {
        [[maybe_unused]] const ssize_t written = write(verdict[1], line.data(), line.size());
        close(verdict[1]);
      };
      if (kind == Containment::subreaper) guard(body, contained, traces, ours.ends[0], tell);
      if (const std::string why = enter_namespaces(kind == Containment::user_namespace); !why.empty()) {
        tell(why);
        _exit(1);
      }
      Lifeline below;
      const pid_t first = fork();
      if (first < 0) {
        tell(failed("fork(2)"));
        _exit(1);
      }
      if (first == 0) {
        below.keep_read_end();
        die_with_parent(below.ends[0]);
        if (const std::string why = make_private_mounts(); !why.empty()) {
          tell(why);
          _exit(1);
        }
        contained.private_shm = true;
        tell("ok");
        _exit(body(contained));
      }
      close(verdict[1]);
      _exit(wait_for(first));
    }
    close(verdict[1]);
    std::string line;
    char buffer[256];
    for (ssize_t count; (count = read(verdict[0], buffer, sizeof buffer)) > 0 || (count < 0 && errno == EINTR);)
      if (count > 0) line.append(buffer, static_cast<std::size_t>(count));
    close(verdict[0]);
    const int code = wait_for(launcher);
    if (kind == Containment::subreaper) {
      if (code > 128) kill_descendants(before);  // the guard was killed, or would have done this itself
      traces.remove();
      prctl(PR_SET_CHILD_SUBREAPER, was_subreaper);
    }
    if (line == "ok") return code;
    contained.refused.push_back(std::string(containment_name(kind)) + ": " + (line.empty() ? "the launcher died" : line));
  }
  throw Error(ErrorCode::internal, "no containment for the trial could be made");
}

}  // namespace misfire
