// The chain that holds a trial: caller -> launcher (makes the namespaces) -> first process in them -> everything else.
//
// A PID namespace dies with its first process, a mount or IPC namespace with its last, so the kernel cleans up whatever happens to
// us. Without namespaces the first process is a subreaper: it gets every orphan and kills what is left at the end; when it is
// killed itself its children die by PDEATHSIG, and only a grandchild that left its parent in that same moment could stay.

#include "harness/containment.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "harness/error.hpp"
#include "harness/procfs.hpp"

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
    if (!write_text("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1")) return failed("/proc/self/uid_map");
    if (!write_text("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1")) return failed("/proc/self/gid_map");
  }
  return {};
}

/// Run by the first process of the namespaces.
std::string make_private_mounts() {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failed("make mounts private");
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) return failed("mount /proc");
  if (mount("misfire-shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "size=50%,mode=1777") != 0) return failed("mount /dev/shm");
  return {};
}

void kill_descendants() {
  for (int round = 0; round < 1000; ++round) {
    const std::vector<int> left = descendants(getpid());
    if (left.empty()) return;
    for (const int pid : left) kill(pid, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

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
    case Containment::user_namespace: return "user_namespace";
    case Containment::namespaces: return "namespaces";
    case Containment::subreaper: return "subreaper";
  }
  return "unknown";
}

void die_with_parent(int parent_alive) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pollfd poller{parent_alive, POLLIN, 0};
  if (poll(&poller, 1, 0) > 0 && (poller.revents & POLLHUP)) _exit(128 + SIGKILL);
}

int run_contained(const std::function<int(const Contained&)>& body) {
  Contained contained{Containment::subreaper, {}, false};
  for (const Containment kind : {Containment::user_namespace, Containment::namespaces, Containment::subreaper}) {
    if (kind == Containment::namespaces && geteuid() != 0) {
      contained.refused.emplace_back("namespaces: needs root");
      continue;
    }
    contained.kind = kind;
    Lifeline ours;
    int verdict[2];  // one line from below: why this containment cannot be had, or "ok"
    if (pipe2(verdict, O_CLOEXEC) != 0) throw system_error("make a pipe", "", errno);
    const pid_t launcher = fork();
    if (launcher < 0) throw system_error("start a process", "", errno);
    if (launcher == 0) {
      ours.keep_read_end();
      close(verdict[0]);
      die_with_parent(ours.ends[0]);
      const auto tell = [&](const std::string& line) {
        [[maybe_unused]] const ssize_t written = write(verdict[1], line.data(), line.size());
        close(verdict[1]);
      };
      if (kind == Containment::subreaper) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        tell("ok");
        const int code = body(contained);
        kill_descendants();
        _exit(code);
      }
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
    if (line == "ok") return code;
    contained.refused.push_back(std::string(containment_name(kind)) + ": " + (line.empty() ? "the launcher died" : line));
  }
  throw Error(ErrorCode::internal, "no containment for the trial could be made");
}

}  // namespace misfire
