// Goal: help, manual pages and completions come from the command table, whole and well-formed; reports look as approved. Method:
// golden files in tests/golden/cli (MISFIRE_UPDATE_GOLDEN=1 rewrites them), and the shells themselves where they are installed.

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "harness/files.hpp"
#include "harness/text.hpp"
#include "suites/cli/command.hpp"
#include "suites/cli/manual.hpp"
#include "tests/check.hpp"
#include "tests/cli/driver.hpp"

namespace misfire::test {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST("help of the program and of each command, by each way to ask") {
  golden("help.txt", misfire({"--help"}).out);
  golden("reproduce-help.txt", misfire({"reproduce", "--help"}).out);
  for (const cli::Command& command : cli::commands()) {
    const std::string name(command.name);
    const ProcessResult help = misfire({name, "--help"});
    CHECK_EQ(help.exit_code, 0);
    CHECK_EQ(help.out, misfire({"help", name}).out);
    CHECK(help.out.starts_with("usage: misfire " + name));
    CHECK(!command.summary.ends_with('.'));
    for (const Option& option : command.options.options()) CHECK(!option.help.empty());
    for (const std::string& line : split(help.out, '\n')) CHECK(line.size() <= 120);
  }
}

TEST("help takes under 30 ms") {
  misfire({"--help"});
  Duration best = std::chrono::seconds(1);
  for (int i = 0; i < 5; ++i) best = std::min(best, misfire({"--help"}).elapsed);
  CHECK(best < std::chrono::milliseconds(30));
}

TEST("a report: header and progress on standard error, the report on standard output, no colour where no terminal is") {
  const std::string out = scratch() + "/out";
  const ProcessResult result = misfire({"reproduce", canned("canned-signal"), "--seed", "7", "-o", out});
  golden("reproduce.txt", result.out);
  golden("reproduce-progress.txt", result.err);
  CHECK(!contains(result.out + result.err, "\033"));
  golden("summary.txt",
         misfire({"reproduce", canned("canned-signal"), canned("canned-step"), "--seed", "7", "-o", out + "-all"}).out);
  golden("arm.txt", misfire({"reproduce", canned("canned-signal"), "--seed", "7", "--arm", "faulty", "-o", out}).out);
}

TEST("manual pages: one a command, and troff has no complaint") {
  golden("misfire-judge.1", misfire({"man", "judge"}).out);
  const std::string directory = scratch() + "/man";
  CHECK_EQ(misfire({"man", "--output", directory}).exit_code, 0);
  std::size_t pages = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    ++pages;
    const std::string text = read_whole_file(entry.path().string());
    CHECK(text.starts_with(".TH "));
    CHECK(contains(text, ".SH EXIT STATUS"));
    if (find_program("groff").empty()) continue;
    const ProcessResult formatted = run_process({.argv = {"groff", "-man", "-Tutf8", "-ww", "-z", entry.path().string()}});
    CHECK_EQ(formatted.exit_code, 0);
    CHECK_EQ(formatted.err, "");
  }
  CHECK_EQ(pages, cli::commands().size() + 1);
}

TEST("every option of --help is in the manual page, with its meaning") {
  for (const cli::Command& command : cli::commands()) {
    const auto texts = cli::option_texts(command.options);
    CHECK_EQ(texts.size(), command.options.options().size());
    for (const cli::OptionText& text : texts) CHECK(text.form.starts_with("-") && !text.meaning.empty());
  }
}

/// What bash offers for a command line whose last word is incomplete.
std::string bash_offers(const std::string& line) {
  const std::string script = "source <(" DRIVER " completion bash); misfire() { " DRIVER " \"$@\"; }; COMP_WORDS=(" + line +
                             "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _misfire; echo \" ${COMPREPLY[*]} \"";
  const ProcessResult result = run_process({.argv = {"bash", "-c", script}});
  CHECK_EQ(result.err, "");
  return result.out;
}

TEST("bash completes commands, options, values, failures") {
  if (find_program("bash").empty()) SKIP("bash is not installed");
  CHECK(contains(bash_offers("misfire rep"), " reproduce "));
  CHECK(!contains(bash_offers("misfire rep"), " list "));
  CHECK(contains(bash_offers("misfire reproduce shm"), " shm-exhaustion-sigbus "));
  CHECK(contains(bash_offers("misfire reproduce --all-"), " --all-arms "));
  CHECK(contains(bash_offers("misfire reproduce --expect inv"), " invalid "));
  CHECK(contains(bash_offers("misfire list --scenario data"), " dataloader "));
  CHECK(contains(bash_offers("misfire faults mem"), " mem.shm_size "));
  CHECK(contains(bash_offers("misfire baseline com"), " compare "));
}

TEST("completions of every shell parse there") {
  const std::string directory = scratch();
  for (const auto& [shell, flag] : {std::pair{"bash", "-n"}, {"zsh", "-n"}, {"fish", "--no-execute"}}) {
    const ProcessResult made = misfire({"completion", shell});
    CHECK_EQ(made.exit_code, 0);
    for (const cli::Command& command : cli::commands()) CHECK(contains(made.out, std::string(command.name)));
    if (find_program(shell).empty()) continue;
    const std::string path = directory + "/" + shell;
    write_file_atomically(path, made.out);
    const ProcessResult checked = run_process({.argv = {shell, flag, path}});
    CHECK_EQ(checked.exit_code, 0);
    CHECK_EQ(checked.err, "");
  }
}

}  // namespace
}  // namespace misfire::test
