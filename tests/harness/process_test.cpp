// Goal: a program is started, captured, ended in time and reaped, and dies with us; nothing of it is left.
// Method: real shells; this program starts itself again as the one that is killed.
#include "harness/process.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/text.hpp"
#include "tests/check.hpp"
#include "tests/harness/self.hpp"

using namespace misfire;
using namespace std::chrono_literals;

namespace {

ProcessSpec shell(std::string script, Duration timeout = 20s) {
  return {.argv = {"sh", "-c", std::move(script)}, .timeout = timeout, .grace = 200ms};
}

// Runs or waits to be reaped by somebody; a number that does not exist any more is false.
bool alive(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

bool gone_within(int pid, Duration wait) {
  for (const auto end = std::chrono::steady_clock::now() + wait; std::chrono::steady_clock::now() < end;) {
    if (!alive(pid)) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

int open_descriptors() {
  return static_cast<int>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

}  // namespace

TEST("exit codes, signals and both outputs come back") {
  auto result = run_process(shell("echo out; echo err >&2; exit 3"));
  CHECK_EQ(result.exit_code, 3);
  CHECK_EQ(result.signal, 0);
  CHECK_EQ(result.out, "out\n");
  CHECK_EQ(result.err, "err\n");
  CHECK(!result.timed_out && !result.interrupted);
  CHECK(result.elapsed > 0s && result.elapsed < 10s);
  result = run_process(shell("kill -BUS $$"));
  CHECK_EQ(result.signal, SIGBUS);
  CHECK_EQ(result.exit_code, -1);
  result = run_process({.argv = {"sh", "-c", "echo out; exit 4"}, .capture = false});
  CHECK_EQ(result.exit_code, 4);
  CHECK_EQ(result.out, "");
}

TEST("arguments and environment arrive unchanged, input is empty") {
  const std::vector<std::string> words = {"a b", "it's", "", "$HOME", "*", "\n", "\"", "\\"};
  std::vector<std::string> argv = {"printf", "[%s]"};
  argv.insert(argv.end(), words.begin(), words.end());
  const std::string expected = "[" + join(words, "][") + "]";
  CHECK_EQ(run_process({.argv = argv}).out, expected);
  CHECK_EQ(run_process(shell(shell_quote(argv))).out, expected);
  CHECK_EQ(run_process({.argv = {"sh", "-c", "echo \"$MISFIRE_X\"; cat"}, .environment = {"MISFIRE_X=a=b"}}).out, "a=b\n");
  CHECK(std::getenv("MISFIRE_X") == nullptr);
}

TEST("megabytes on both outputs neither block nor fill memory") {
  const auto result =
      run_process(shell("head -c 5000000 /dev/zero | tr '\\0' a; head -c 5000000 /dev/zero | tr '\\0' b >&2; echo end"));
  CHECK_EQ(result.exit_code, 0);
  CHECK(result.out.size() <= 1 << 20 && result.out.size() > 900'000);
  CHECK(result.err.size() <= 1 << 20 && result.err.size() > 900'000);
  CHECK(result.out.starts_with("aaa"));
  CHECK(result.out.ends_with("aaaend\n"));
  CHECK(result.out.find("bytes left out") != std::string::npos);
  const auto whole = run_process(shell("head -c 1000000 /dev/zero | tr '\\0' a"));
  CHECK_EQ(whole.out.size(), 1'000'000u);
}

TEST("what cannot be started is an error, and leaves no child and no descriptor") {
  const int before = open_descriptors();
  CHECK_THROWS(run_process({.argv = {"misfire-no-such-program"}}), "no such program in PATH");
  CHECK_THROWS(run_process({.argv = {"/none/program"}}), "start '/none/program': No such file or directory");
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() + "/data", "x");
  CHECK_THROWS(run_process({.argv = {directory.path() + "/data"}}), "Permission denied");
  CHECK_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  CHECK_EQ(open_descriptors(), before);
  run_process(shell("true"));
  CHECK_EQ(open_descriptors(), before);
}

TEST("a deadline ends the whole group: politely, then not") {
  const TemporaryDirectory directory;
  auto spec = shell("trap 'echo bye; exit 0' TERM; echo $$; while :; do sleep 0.02; done", 200ms);
  auto result = run_process(spec);
  CHECK(result.timed_out);
  CHECK_EQ(result.exit_code, 0);
  CHECK(result.out.ends_with("bye\n"));
  spec = shell("trap '' TERM; sleep 100 & echo $!; wait; wait", 200ms);
  result = run_process(spec);
  CHECK(result.timed_out);
  CHECK_EQ(result.signal, SIGKILL);
  CHECK(result.elapsed >= 390ms && result.elapsed < 5s);
  CHECK(gone_within(std::stoi(result.out), 2s));
  CHECK(!run_process(shell("sleep 0.05", 10s)).timed_out);
}

TEST("what a program leaves running in its group ends with it, though it holds the outputs") {
  const auto result = run_process(shell("sleep 100 & echo $!"));
  CHECK(result.elapsed < 5s);
  CHECK(gone_within(std::stoi(result.out), 2s));
}

TEST("the caller is called while it waits, and may throw") {
  int calls = 0;
  auto spec = shell("sleep 0.4");
  spec.poll = [&] { ++calls; };
  run_process(spec);
  CHECK(calls >= 3 && calls <= 8);
  spec = shell("sleep 100");
  spec.poll = [] { throw Error(ErrorCode::internal, "poll refused"); };
  CHECK_THROWS(run_process(spec), "poll refused");
  CHECK_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST("descriptors of ours do not reach it, and it begins with no signal blocked") {
  int ends[2];
  CHECK_EQ(::pipe(ends), 0);  // without close-on-exec
  sigset_t blocked, previous;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &previous);
  const auto result = run_process(shell("ls /proc/self/fd | tr '\\n' ' '; grep SigBlk /proc/self/status"));
  ::pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  CHECK(result.out.starts_with("0 1 2 3 "));  // 3 is the directory being listed
  CHECK(result.out.find("0 1 2 3 4") == std::string::npos);
  CHECK(result.out.find("SigBlk:\t0000000000000000") != std::string::npos);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST("starting costs milliseconds, and its end is noticed at once") {
  std::array<Duration, 20> times;
  for (Duration& time : times) time = run_process({.argv = {"/bin/true"}}).elapsed;
  std::sort(times.begin(), times.end());
  CHECK(times[times.size() / 2] < 20ms);  // about 1 ms; sanitizers and busy machines take longer
}

TEST("programs are found as a shell finds them") {
  CHECK(find_program("sh").ends_with("/sh"));
  CHECK_EQ(find_program("misfire-no-such-program"), "");
  CHECK_EQ(find_program(""), "");
  CHECK_EQ(find_program("./x"), "./x");
  CHECK(std::filesystem::exists(self_executable()));
  CHECK_EQ(std::filesystem::path(sibling_executable("other")).parent_path(),
           std::filesystem::path(self_executable()).parent_path());
}

// The roles of the next tests: a driver that is killed or interrupted while its program runs.
TEST("plays a driver") {
  const char* role = std::getenv("MISFIRE_TEST_ROLE");
  if (role == nullptr) SKIP("started by another test");
  install_stop_signals();
  install_stop_signals();
  auto spec = shell("echo $$ > $MISFIRE_TEST_FILE.tmp; mv $MISFIRE_TEST_FILE.tmp $MISFIRE_TEST_FILE; exec sleep 100", 60s);
  const auto result = run_process(spec);
  CHECK(result.interrupted);
  CHECK(!result.timed_out);
  CHECK_EQ(result.signal, SIGTERM);
  CHECK(stop_requested());
  CHECK_EQ(stop_signal(), SIGINT);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(run_process(spec).interrupted);  // one that is started afterwards ends at once
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
}

namespace {

// Starts this program as the driver of a sleeping program, sends it a signal, and says how both ended.
struct DriverEnd {
  int status = 0;
  bool program_gone = false;
};
DriverEnd end_driver_with(int number) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/pid", self = self_executable();
  const pid_t driver = ::fork();
  if (driver == 0) {
    ::setenv("MISFIRE_TEST_ROLE", "driver", 1);
    ::setenv("MISFIRE_TEST_FILE", file.c_str(), 1);
    ::execl(self.c_str(), self.c_str(), "plays a driver", nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 5000 && !std::filesystem::exists(file); ++i) std::this_thread::sleep_for(2ms);
  const int program = std::stoi(read_whole_file(file));
  CHECK(alive(program));
  ::kill(driver, number);
  DriverEnd end;
  ::waitpid(driver, &end.status, 0);
  end.program_gone = gone_within(program, 2s);
  return end;
}

}  // namespace

TEST("killed, we take the program with us") {
  skip_unless_this_program_starts();
  const DriverEnd end = end_driver_with(SIGKILL);
  CHECK(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL);
  CHECK(end.program_gone);
}

TEST("asked to stop, we end the program and go on to the end") {
  skip_unless_this_program_starts();
  const DriverEnd end = end_driver_with(SIGINT);
  CHECK(WIFEXITED(end.status));
  CHECK_EQ(WEXITSTATUS(end.status), 0);
  CHECK(end.program_gone);
}
