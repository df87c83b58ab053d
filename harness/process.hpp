#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/unit.hpp"

namespace misfire {

/// A program to run to its end.
struct ProcessSpec {
  std::vector<std::string> argv;                ///< argv[0] is a path, or a name looked up in PATH
  std::vector<std::string> environment = {};    ///< "NAME=value" added to ours
  Duration timeout = std::chrono::seconds(60);  ///< then SIGTERM, and SIGKILL after `grace`, to the program's process group
  Duration grace = std::chrono::seconds(2);
  bool capture = true;              ///< collect standard output and error; otherwise they go to /dev/null
  std::function<void()> poll = {};  ///< called about every 50 ms while it runs (progress)
};

struct ProcessResult {
  int exit_code = -1;  ///< -1 when ended by a signal
  int signal = 0;
  bool core_dumped = false;
  bool timed_out = false;
  bool interrupted = false;  ///< we were asked to stop (SIGINT, SIGTERM) and ended it
  std::string out, err;      ///< at most 1 MiB each; the middle is dropped
  Duration elapsed{};
};

/// Runs it in a process group of its own, killed by the kernel (PDEATHSIG) when we die, and reaps it; what it left running in
/// its group is killed with its end. Standard input is /dev/null. Call from a thread that outlives it: PDEATHSIG means the
/// thread. The only place that knows Boost.Process.
/// @throws Error{not_found, permission} when it cannot be started
ProcessResult run_process(const ProcessSpec& spec);

/// Where a program is found in PATH, or "" when it is nowhere; a name with a '/' is returned as it is.
std::string find_program(std::string_view name);

/// Path of the running executable, and of a sibling in the same directory.
std::string self_executable();
std::string sibling_executable(std::string_view name);

/// SIGINT, SIGTERM and SIGHUP set a flag that run_process obeys. Call once from main.
void install_stop_signals();
bool stop_requested() noexcept;
int stop_signal() noexcept;  ///< 0 when none came

}  // namespace misfire
