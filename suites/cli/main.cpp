// misfire: the driver. Finds and describes failures, starts a scenario's executable once a trial, judges what its records say.
// It never runs a workload itself: whatever becomes of a trial, the driver lives to tell.

#include <cstdio>
#include <string>
#include <vector>

#include "harness/error.hpp"
#include "suites/cli/command.hpp"
#include "suites/cli/print.hpp"

namespace misfire::cli {
namespace {

bool asks_for_help(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return false;
    if (argument == "--help" || argument == "-h") return true;
  }
  return false;
}

int dispatch(Call call) {
  if (call.arguments.empty()) {
    std::fputs(program_help().c_str(), stderr);
    return static_cast<int>(Exit::usage);
  }
  const std::string& first = call.arguments.front();
  if (first == "--help" || first == "-h") {
    print(program_help());
    return 0;
  }
  if (first == "--version" || first == "-V") {
    print(version_text());
    return 0;
  }
  if (first.starts_with("-")) throw Error(ErrorCode::usage, "unknown option '" + first + "'; see misfire --help");

  Command chosen = command(first);
  const std::vector<std::string> rest(call.arguments.begin() + 1, call.arguments.end());
  if (asks_for_help(rest)) {
    print(command_help(chosen));
    return 0;
  }
  try {
    chosen.options.read_environment();
    call.positional = chosen.options.parse(rest);
    if (chosen.arguments.empty()) at_most(call, 0);
    return chosen.run(call);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage) throw;
    throw Error(ErrorCode::usage, std::string(error.what()) + "; see misfire " + std::string(chosen.name) + " --help");
  }
}

int run(int argc, char** argv) {
  try {
    const int code = dispatch({argv[0], {argv + 1, argv + argc}, {}});
    check_output();
    return code;
  } catch (const Error& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "misfire: %s\n", error.what());
    return static_cast<int>(exit_for(error.code()));
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "misfire: internal error: %s\n", error.what());
    return static_cast<int>(Exit::internal);
  }
}

}  // namespace
}  // namespace misfire::cli

int main(int argc, char** argv) { return misfire::cli::run(argc, argv); }
