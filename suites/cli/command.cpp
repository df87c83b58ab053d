#include "suites/cli/command.hpp"

#include "harness/error.hpp"
#include "harness/record.hpp"
#include "harness/text.hpp"
#include "misfire_config.hpp"
#include "suites/cli/print.hpp"

namespace misfire::cli {
namespace {

constexpr ExitLine exit_codes[] = {
    {0, "pass; reproduced"},
    {1, "regression; not reproduced; an expectation was missed"},
    {2, "inconclusive: the evidence does not decide"},
    {3, "invalid: fault not observed, control not clean, or data missing"},
    {4, "leak: something that Misfire put on the machine was left behind"},
    {64, "a mistake on the command line or in a given file"},
    {70, "Misfire could not do its work"},
    {77, "skipped: a capability is missing"},
    {130, "interrupted (128 + signal)"},
};

std::string exit_text() {
  std::vector<std::vector<std::string>> rows;
  for (const ExitLine& line : exit_codes) rows.push_back({std::to_string(line.code), std::string(line.meaning)});
  return "Exit codes:\n" + columns(rows, 2);
}

}  // namespace

std::vector<Command> commands() {
  return {list_command(),     show_command(),       reproduce_command(), matrix_command(),  judge_command(),
          baseline_command(), claims_command(),     doctor_command(),    faults_command(),  env_command(),
          schema_command(),   completion_command(), man_command(),       version_command(), help_command()};
}

Command command(std::string_view name) {
  std::vector<Command> all = commands();
  std::vector<std::string_view> names;
  for (Command& known : all) {
    if (known.name == name) return std::move(known);
    names.push_back(known.name);
  }
  throw Error(ErrorCode::usage,
              "unknown command '" + std::string(name) + "'" + did_you_mean(name, names) + "; 'misfire help' shows them all");
}

std::span<const ExitLine> exit_lines() { return exit_codes; }

std::string program_help() {
  std::string text =
      "usage: misfire COMMAND [OPTION...] [ARGUMENT...]\n\n"
      "Reproduces the failures that waste GPUs, with proof that the fault was there, that the symptom came,\n"
      "and that the remedy cured it. Needs no GPU and no root.\n\nCommands:\n";
  std::vector<std::vector<std::string>> rows;
  for (const Command& known : commands()) rows.push_back({std::string(known.name), std::string(known.summary)});
  text += columns(rows, 2);
  text +=
      "\nBegin with:\n"
      "  misfire list                          the failures\n"
      "  misfire list \"Bus error\"              those with that symptom; paste a whole log line\n"
      "  misfire reproduce shm-exhaustion-sigbus\n\n"
      "  misfire help COMMAND, misfire COMMAND --help     options of a command\n"
      "  misfire --version                                version\n\n";
  return text + exit_text();
}

std::string command_help(const Command& command) {
  std::string text = "usage: misfire " + std::string(command.name);
  if (!command.options.options().empty()) text += " [OPTION...]";
  if (!command.arguments.empty()) text += " " + std::string(command.arguments);
  text += "\n\n" + wrap(command.summary, page_width(), 0) + ".\n";
  std::size_t begin = 0;
  while (begin < command.description.size()) {
    const std::size_t end = std::min(command.description.find("\n\n", begin), command.description.size());
    text += "\n" + wrap(command.description.substr(begin, end - begin), page_width(), 0) + "\n";
    begin = end + 2;
  }
  if (!command.options.options().empty()) text += "\nOptions:\n" + command.options.help(page_width());
  if (!command.examples.empty()) {
    text += "\nExamples:\n";
    for (const Command::Example& example : command.examples)
      text += "  " + std::string(example.command) + "\n" + wrap(example.meaning, page_width(), 6) + "\n";
  }
  return text + "\n" + exit_text();
}

std::string version_text() { return std::string("misfire ") + MISFIRE_VERSION + "\n"; }

void at_most(const Call& call, std::size_t most) {
  if (call.positional.size() > most) throw Error(ErrorCode::usage, "unexpected argument '" + call.positional[most] + "'");
}

}  // namespace misfire::cli
