#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/options.hpp"

namespace misfire::cli {

/// How the driver was called.
struct Call {
  std::string program;                  ///< argv[0]: what a replay command begins with
  std::vector<std::string> arguments;   ///< all that followed
  std::vector<std::string> positional;  ///< of the command, options taken out
};

/// What a positional argument names, for completion.
enum class Subject { none, failure, record, fault, command, word };

/// One command, declared once: dispatch, --help, man page and completion come from it.
struct Command {
  struct Example {
    std::string_view command, meaning;
  };

  std::string_view name;
  std::string_view arguments = {};      ///< as in a synopsis: "NAME|FILE"; empty when none are taken
  std::string_view summary;             ///< one line, no full stop
  std::string_view description = {};    ///< paragraphs, an empty line between them
  OptionTable options = {};             ///< bound to what `run` has captured
  std::function<int(const Call&)> run;  ///< @return exit code
  std::vector<Example> examples = {};
  Subject subject = Subject::none;
  std::vector<std::string_view> words = {};  ///< what an argument may be, when it is one of a few words
};

Command list_command();
Command show_command();
Command reproduce_command();
Command matrix_command();
Command judge_command();
Command baseline_command();
Command claims_command();
Command doctor_command();
Command faults_command();
Command env_command();
Command schema_command();
Command completion_command();
Command man_command();
Command version_command();
Command help_command();

/// Every command, in the order of `misfire help`.
std::vector<Command> commands();
/// @throws Error{usage} with the nearest name
Command command(std::string_view name);

/// A line of "EXIT STATUS": the same for every command.
struct ExitLine {
  int code;
  std::string_view meaning;
};
std::span<const ExitLine> exit_lines();

std::string program_help();
std::string command_help(const Command& command);
std::string version_text();

/// Refuses positional arguments beyond `most`. @throws Error{usage}
void at_most(const Call& call, std::size_t most);

}  // namespace misfire::cli
