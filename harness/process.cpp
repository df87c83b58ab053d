#include "harness/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/env.hpp>
#include <boost/process/environment.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/io.hpp>
#include <boost/process/posix.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <utility>

#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/text.hpp"

namespace misfire {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

struct Pipe {
  Descriptor read, write;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw system_error("make a pipe", "", errno);
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
};

// Standard output or error of a program: the beginning and the end, 1 MiB in all.
class Capture {
 public:
  void append(std::string_view text) {
    const std::size_t to_head = std::min(text.size(), half_ - std::min(half_, head_.size()));
    head_ += text.substr(0, to_head);
    tail_ += text.substr(to_head);
    if (tail_.size() > 2 * half_) {
      dropped_ += tail_.size() - half_;
      tail_.erase(0, tail_.size() - half_);
    }
  }
  std::string take() {
    if (tail_.size() > half_) {
      dropped_ += tail_.size() - half_;
      tail_.erase(0, tail_.size() - half_);
    }
    if (dropped_ > 0) head_ += "\n... " + std::to_string(dropped_) + " bytes left out ...\n";
    return std::move(head_) + tail_;
  }

 private:
  static constexpr std::size_t half_ = (1UL << 19) - 32;
  std::string head_, tail_;
  std::size_t dropped_ = 0;
};

/// Reads what is there. @return false at the end
bool drain(int fd, Capture& capture) {
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got > 0) {
      capture.append({buffer.data(), static_cast<std::size_t>(got)});
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
}

// What the child does between fork and exec: async-signal-safe calls only.
struct ChildSetup : boost::process::extend::handler {
  pid_t parent = ::getpid();

  template <class Executor>
  void on_exec_setup(Executor&) const {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);  // it died before the line above
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
#if defined(SYS_close_range)
    constexpr unsigned close_on_exec = 1U << 2;
    ::syscall(SYS_close_range, 3U, ~0U, close_on_exec);  // pipes of other threads' programs
#endif
  }
  // Boost.Process 1.74 leaves a child that could not execute for somebody else to reap.
  template <class Executor>
  void on_error(Executor& executor, const std::error_code&) const {
    if (executor.pid > 0) ::waitpid(executor.pid, nullptr, 0);
  }
};

std::atomic<int> stop_signal_number{0};
int stop_pipe[2] = {-1, -1};  // readable for ever once a stop signal came

void on_stop_signal(int number) {
  const int saved = errno;
  int none = 0;
  if (stop_signal_number.compare_exchange_strong(none, number)) [[maybe_unused]]
    const ssize_t ignored = ::write(stop_pipe[1], "", 1);
  errno = saved;
}

/// The program while it runs. Whatever happens, its process group is killed and it is reaped.
class Running {
 public:
  explicit Running(pid_t pid) : pid_(pid), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (pid_ > 0) reap();
  }
  int pidfd() const noexcept { return pidfd_.get(); }
  /// Ended, though not reaped: its number is still its own.
  bool ended() const noexcept {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  }
  void signal_group(int number) const noexcept { ::kill(-pid_, number); }
  /// Ends what is left of the group, and returns the wait status.
  int reap() noexcept {
    signal_group(SIGKILL);
    ::kill(pid_, SIGKILL);  // in case it left the group
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_;
  Descriptor pidfd_;
};

pid_t start(const ProcessSpec& spec, const std::string& program, int out, int err) {
  namespace bp = boost::process;
  const std::vector<std::string> arguments(spec.argv.begin() + 1, spec.argv.end());
  bp::environment environment = boost::this_process::environment();
  for (const std::string& entry : spec.environment) {
    const std::size_t equals = entry.find('=');
    // Not operator[]: that of Boost 1.74 compares beyond the end of shorter entries.
    environment.set(entry.substr(0, equals), equals == std::string::npos ? "" : entry.substr(equals + 1));
  }
  std::error_code error;
  const auto launch = [&](auto&&... more) {
    bp::child child(bp::exe = program, bp::args = arguments, environment, bp::std_in < bp::null, error, ChildSetup{}, more...);
    const pid_t pid = child.id();
    child.detach();
    return pid;
  };
  const pid_t pid = spec.capture ? launch(bp::posix::fd.bind(STDOUT_FILENO, out), bp::posix::fd.bind(STDERR_FILENO, err))
                                 : launch(bp::std_out > bp::null, bp::std_err > bp::null);
  if (error) throw system_error("start", program, error.value());
  return pid;
}

}  // namespace

ProcessResult run_process(const ProcessSpec& spec) {
  MISFIRE_ASSERT(!spec.argv.empty());
  const std::string program = find_program(spec.argv[0]);
  if (program.empty())
    throw Error(ErrorCode::not_found, "start '" + spec.argv[0] + "': no such program in PATH (" +
                                          (std::getenv("PATH") != nullptr ? std::getenv("PATH") : "which is not set") + ")");
  const std::int64_t begin = monotonic_ns();
  Pipe out_pipe, err_pipe;
  ProcessResult result;
  Running child(start(spec, program, out_pipe.write.get(), err_pipe.write.get()));
  out_pipe.write.close();
  err_pipe.write.close();

  constexpr std::int64_t never = INT64_MAX;
  constexpr std::int64_t poll_interval = 50'000'000;
  const auto later = [](std::int64_t from, Duration wait) { return wait.count() > never - from ? never : from + wait.count(); };
  std::int64_t term_at = later(begin, spec.timeout), kill_at = never;
  std::int64_t poll_at = spec.poll ? begin + poll_interval : never;
  std::array<Capture, 2> captures;
  enum { program_end, out_end, err_end, stop };
  std::array<pollfd, 4> fds{pollfd{child.pidfd(), POLLIN, 0}, pollfd{out_pipe.read.get(), POLLIN, 0},
                            pollfd{err_pipe.read.get(), POLLIN, 0}, pollfd{stop_pipe[0], POLLIN, 0}};
  const auto drain_all = [&] {
    for (int i : {out_end, err_end})
      if (fds[i].fd >= 0 && !drain(fds[i].fd, captures[i - out_end])) fds[i].fd = -1;
  };

  while (!child.ended()) {
    const std::int64_t now = monotonic_ns();
    if (stop_requested() && !result.interrupted) {
      result.interrupted = true;
      fds[stop].fd = -1;
      if (kill_at == never) term_at = now;
    }
    if (now >= term_at) {
      result.timed_out = !result.interrupted;
      child.signal_group(SIGTERM);
      term_at = never;
      kill_at = later(now, spec.grace);
    }
    if (now >= kill_at) {
      child.signal_group(SIGKILL);
      kill_at = never;
    }
    if (now >= poll_at) {
      spec.poll();
      poll_at = monotonic_ns() + poll_interval;
    }
    std::int64_t wait = std::min({term_at, kill_at, poll_at, now + 3600'000'000'000}) - now;
    if (fds[program_end].fd < 0) wait = std::min<std::int64_t>(wait, 2'000'000);  // no pidfd (Linux before 5.3): look often
    const timespec timeout{wait > 0 ? wait / 1'000'000'000 : 0, wait > 0 ? wait % 1'000'000'000 : 0};
    ::ppoll(fds.data(), fds.size(), &timeout, nullptr);
    drain_all();
  }
  const int status = child.reap();
  drain_all();

  if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
    result.core_dumped = WCOREDUMP(status);
  } else {
    result.exit_code = WEXITSTATUS(status);
  }
  result.out = captures[0].take();
  result.err = captures[1].take();
  result.elapsed = Duration(monotonic_ns() - begin);
  return result;
}

std::string find_program(std::string_view name) {
  if (name.find('/') != std::string_view::npos) return std::string(name);
  const char* path = std::getenv("PATH");
  for (const std::string& directory : split(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin", ':')) {
    const std::string candidate = (directory.empty() ? "." : directory) + "/" + std::string(name);
    struct stat status {};
    if (::access(candidate.c_str(), X_OK) == 0 && ::stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode))
      return candidate;
  }
  return "";
}

std::string self_executable() {
  std::array<char, 4096> buffer{};
  const ssize_t length = ::readlink("/proc/self/exe", buffer.data(), buffer.size());
  if (length < 0) throw system_error("read", "/proc/self/exe", errno);
  return std::string(buffer.data(), static_cast<std::size_t>(length));
}

std::string sibling_executable(std::string_view name) {
  const std::string self = self_executable();
  return self.substr(0, self.rfind('/') + 1) + std::string(name);
}

void install_stop_signals() {
  if (stop_pipe[0] >= 0) return;
  if (::pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) != 0) throw system_error("make a pipe", "", errno);
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction present {};
    ::sigaction(number, nullptr, &present);
    if (present.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);  // nohup stays nohup
  }
}

bool stop_requested() noexcept { return stop_signal_number != 0; }
int stop_signal() noexcept { return stop_signal_number; }

}  // namespace misfire
