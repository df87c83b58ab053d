#include "suites/cli/manual.hpp"

#include <algorithm>
#include <memory>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/text.hpp"
#include "misfire_config.hpp"
#include "suites/catalog.hpp"
#include "suites/cli/print.hpp"

namespace misfire::cli {
namespace {

/// Text as troff prints it unchanged.
std::string troff(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_start = c == '\n';
  }
  return out;
}

std::string title(const std::string& name) {
  std::string upper = name;
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return ".TH " + troff(upper) + " 1 \"\" \"misfire " MISFIRE_VERSION "\" \"Misfire\"\n";
}

std::string section(std::string_view name, const std::string& body) { return ".SH " + std::string(name) + "\n" + body; }

std::string paragraphs(std::string_view text) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", begin), text.size());
    out += ".PP\n" + troff(text.substr(begin, end - begin)) + "\n";
    begin = end + 2;
  }
  return out;
}

std::string tagged(std::string_view tag, std::string_view text) { return ".TP\n.B " + troff(tag) + "\n" + troff(text) + "\n"; }

std::string exit_section() {
  std::string body;
  for (const ExitLine& line : exit_lines()) body += tagged(std::to_string(line.code), line.meaning);
  return section("EXIT STATUS", body);
}

std::string dashed(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

bool is_flag(const Option& option) { return std::holds_alternative<bool*>(option.target); }

bool takes_path(const Option& option) { return option.value_name == "DIR" || option.value_name == "FILE"; }

std::string words_text(const std::vector<std::string_view>& words) {
  std::string text;
  for (std::string_view word : words) text.append(text.empty() ? "" : " ").append(word);
  return text;
}

/// What may stand for an option's value, when it is one of a few words.
std::string value_words(const Option& option) {
  if (option.name == "scenario" || option.value_name == "SCENARIO") {
    std::vector<std::string_view> names;
    for (const Scenario* known : scenarios()) names.push_back(known->name);
    return words_text(names);
  }
  return words_text(option.choices);
}

std::string command_names() {
  std::vector<std::string_view> names;
  const std::vector<Command> all = commands();
  for (const Command& known : all) names.push_back(known.name);
  return words_text(names);
}

/// A shell expression that prints what an argument may be, or "" for files.
std::string subject_words(const Command& command) {
  switch (command.subject) {
    case Subject::failure:
      return "$(misfire list --names 2>/dev/null)";
    case Subject::fault:
      return "$(misfire faults 2>/dev/null | cut -d' ' -f1)";
    case Subject::command:
      return command_names();
    case Subject::word:
      return words_text(command.words);
    case Subject::record:
    case Subject::none:
      break;
  }
  return "";
}

bool takes_files(const Command& command) { return command.subject == Subject::failure || command.subject == Subject::record; }

std::string bash_completion() {
  std::string text =
      "# bash completion of misfire; made by 'misfire completion bash'\n"
      "_misfire() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    if [[ ${COMP_WORDS[i]} != -* ]]; then command=${COMP_WORDS[i]}; break; fi\n"
      "  done\n"
      "  COMPREPLY=()\n"
      "  case $command in\n"
      "    '') COMPREPLY=($(compgen -W '" +
      command_names() + " --help --version' -- \"$cur\")) ;;\n";
  for (const Command& known : commands()) {
    text += "    " + std::string(known.name) + ")\n";
    std::string values, options = "--help";
    for (const Option& option : known.options.options()) {
      options += " --" + dashed(option.name);
      if (is_flag(option)) continue;
      std::string pattern = "--" + dashed(option.name);
      if (option.letter != 0) pattern += std::string("|-") + option.letter;
      const std::string words = value_words(option);
      std::string action = takes_path(option) ? "COMPREPLY=($(compgen -f -- \"$cur\")); " : "";
      if (!words.empty()) action = "COMPREPLY=($(compgen -W '" + words + "' -- \"$cur\")); ";
      values += "        " + pattern + ") " + action + "return ;;\n";
    }
    if (!values.empty()) text += "      case $prev in\n" + values + "      esac\n";
    text += "      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W '" + options + "' -- \"$cur\"))\n";
    const std::string words = subject_words(known);
    std::string reply;
    if (!words.empty()) reply += "$(compgen -W \"" + words + "\" -- \"$cur\")";
    if (takes_files(known)) reply += std::string(reply.empty() ? "" : " ") + "$(compgen -f -- \"$cur\")";
    if (!reply.empty()) text += "      else COMPREPLY=(" + reply + ")\n";
    text += "      fi ;;\n";
  }
  return text + "  esac\n}\ncomplete -o filenames -F _misfire misfire\n";
}

/// Inside single quotes of zsh's _arguments, and of fish.
std::string quoted(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out;
}

std::string zsh_completion() {
  const std::string_view special = "[]:\\";
  std::string text =
      "#compdef misfire\n# zsh completion of misfire; made by 'misfire completion zsh'\n_misfire() {\n  local -a commands\n  "
      "commands=(\n";
  for (const Command& known : commands())
    text += "    '" + std::string(known.name) + ":" + quoted(known.summary, special) + "'\n";
  text +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n  local command=$words[2]\n"
      "  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const Command& known : commands()) {
    text += "    " + std::string(known.name) + ")\n      _arguments '--help[show the options]'";
    for (const Option& option : known.options.options()) {
      std::string spec = "--" + dashed(option.name);
      if (!is_flag(option)) spec += "=";
      spec += "[" + quoted(option.help, special) + "]";
      if (!is_flag(option)) {
        const std::string words = value_words(option);
        spec += ":value:";
        if (!words.empty()) spec += "(" + words + ")";
        if (words.empty() && takes_path(option)) spec += "_files";
      }
      text += " \\\n        '" + spec + "'";
    }
    const std::string words = subject_words(known);
    if (known.subject == Subject::failure || known.subject == Subject::fault) {
      text += " \\\n        \"*:name:(" + words + ")\"";
    } else if (!words.empty()) {
      text += " \\\n        '*:name:(" + words + ")'";
    } else if (takes_files(known)) {
      text += " \\\n        '*:file:_files'";
    }
    text += " ;;\n";
  }
  return text + "  esac\n}\ncompdef _misfire misfire\n";
}

std::string fish_completion() {
  const std::string_view special = "\\";
  std::string text =
      "# fish completion of misfire; made by 'misfire completion fish'\ncomplete -c misfire -f\n"
      "complete -c misfire -n __fish_use_subcommand -l help -d 'show the commands'\n"
      "complete -c misfire -n __fish_use_subcommand -l version -d 'show the version'\n";
  for (const Command& known : commands()) {
    const std::string name(known.name);
    text += "complete -c misfire -n __fish_use_subcommand -a " + name + " -d '" + quoted(known.summary, special) + "'\n";
    const std::string when = "complete -c misfire -n '__fish_seen_subcommand_from " + name + "'";
    for (const Option& option : known.options.options()) {
      text += when + " -l " + dashed(option.name);
      if (option.letter != 0) text += std::string(" -s ") + option.letter;
      if (!is_flag(option)) text += takes_path(option) ? " -r -F" : " -x";
      const std::string words = value_words(option);
      if (!words.empty()) text += " -a '" + words + "'";
      text += " -d '" + quoted(option.help, special) + "'\n";
    }
    const std::string words = subject_words(known);
    if (takes_files(known)) text += when + " -F\n";
    if (known.subject == Subject::failure) {
      text += when + " -a '(misfire list --names 2>/dev/null)'\n";
    } else if (known.subject == Subject::fault) {
      text += when + " -a '(misfire faults 2>/dev/null | string split -f1 \" \")'\n";
    } else if (!words.empty()) {
      text += when + " -a '" + words + "'\n";
    }
  }
  return text;
}

int man(const std::string& output, const Call& call) {
  at_most(call, 1);
  if (!call.positional.empty() && !output.empty())
    throw Error(ErrorCode::usage, "--output writes every page: leave the command out");
  if (output.empty()) {
    print(call.positional.empty() ? program_page() : command_page(command(call.positional.front())));
    return 0;
  }
  make_directories(output);
  write_file_atomically(output + "/misfire.1", program_page());
  for (const Command& known : commands())
    write_file_atomically(output + "/misfire-" + std::string(known.name) + ".1", command_page(known));
  return 0;
}

}  // namespace

std::vector<OptionText> option_texts(const OptionTable& options) {
  // One paragraph an option: its form on a line, then its meaning, indented; so wide that nothing is broken.
  std::vector<OptionText> texts;
  for (const std::string& line : split(options.help(1 << 20), '\n')) {
    if (line.starts_with("      ")) {
      if (!texts.empty()) texts.back().meaning += line.substr(6);
    } else if (line.starts_with("  ")) {
      texts.push_back({line.substr(2), ""});
    }
  }
  return texts;
}

std::string program_page() {
  std::string body;
  for (const Command& known : commands())
    body += ".TP\n.BR misfire\\-" + troff(known.name) + " (1)\n" + troff(known.summary) + "\n";
  return title("misfire") + section("NAME", "misfire \\- reproduce the failures that waste GPUs\n") +
         section("SYNOPSIS", ".B misfire\n.I COMMAND\n[\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n") +
         section("DESCRIPTION",
                 paragraphs("Reproduces named failures of GPU infrastructure, on a machine without a GPU and without root, with "
                            "proof that the fault was there, that the symptom came, and that the remedy cured it.\n\n"
                            "A failure is a JSON file: those of 'misfire list', or your own.")) +
         section("COMMANDS", body) + exit_section() +
         section("ENVIRONMENT",
                 tagged("MISFIRE_OPTION", "an option of reproduce, matrix and baseline, in capital letters (MISFIRE_DATA)") +
                     tagged("NO_COLOR", "no colours, when set and not empty")) +
         section("FILES", tagged("misfire-out/", "records of runs, and prepared data, where no output directory is given"));
}

std::string command_page(const Command& command) {
  const std::string name = "misfire-" + std::string(command.name);
  std::string synopsis = ".B misfire " + troff(command.name) + "\n";
  if (!command.options.options().empty()) synopsis += "[\\fIOPTION\\fR...]\n";
  if (!command.arguments.empty()) synopsis += troff(command.arguments) + "\n";
  std::string text =
      title(name) + section("NAME", troff(name) + " \\- " + troff(command.summary) + "\n") + section("SYNOPSIS", synopsis);
  if (!command.description.empty()) text += section("DESCRIPTION", paragraphs(command.description));
  std::string options;
  for (const OptionText& option : option_texts(command.options)) options += tagged(option.form, option.meaning);
  if (!options.empty()) text += section("OPTIONS", options);
  std::string examples;
  for (const Command::Example& example : command.examples) examples += tagged(example.command, example.meaning);
  if (!examples.empty()) text += section("EXAMPLES", examples);
  return text + exit_section() + section("SEE ALSO", ".BR misfire (1)\n");
}

std::string completion(std::string_view shell) {
  if (shell == "bash") return bash_completion();
  if (shell == "zsh") return zsh_completion();
  if (shell == "fish") return fish_completion();
  constexpr std::string_view known[] = {"bash", "zsh", "fish"};
  throw Error(ErrorCode::usage, "no completion for the shell '" + std::string(shell) + "'" + did_you_mean(shell, known) +
                                    "; there is bash, zsh, fish");
}

Command completion_command() {
  return {.name = "completion",
          .arguments = "bash|zsh|fish",
          .summary = "what a shell needs to complete command lines",
          .run =
              [](const Call& call) {
                at_most(call, 1);
                if (call.positional.empty()) throw Error(ErrorCode::usage, "for which shell? bash, zsh or fish");
                print(completion(call.positional.front()));
                return 0;
              },
          .examples = {{"source <(misfire completion bash)", "in this shell"},
                       {"misfire completion fish > ~/.config/fish/completions/misfire.fish", "for good"}},
          .subject = Subject::word,
          .words = {"bash", "zsh", "fish"}};
}

Command man_command() {
  const auto output = std::make_shared<std::string>();
  return {.name = "man",
          .arguments = "[COMMAND]",
          .summary = "manual pages, in troff",
          .options = OptionTable("", {{"output", output.get(), "write every page there", Unit::text, 0, 0, {}, "DIR", 'o'}}),
          .run = [output](const Call& call) { return man(*output, call); },
          .examples = {{"misfire man reproduce | man -l -", "read one"}},
          .subject = Subject::command};
}

Command help_command() {
  return {.name = "help",
          .arguments = "[COMMAND]",
          .summary = "this overview, or all about a command",
          .run =
              [](const Call& call) {
                at_most(call, 1);
                print(call.positional.empty() ? program_help() : command_help(command(call.positional.front())));
                return 0;
              },
          .subject = Subject::command};
}

}  // namespace misfire::cli
