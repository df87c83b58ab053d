// misfire list, misfire show: which failures there are, found by name, owner or symptom, and all that is known of one.

#include <iostream>
#include <iterator>
#include <memory>

#include "harness/capability.hpp"
#include "harness/error.hpp"
#include "harness/progress.hpp"
#include "harness/text.hpp"
#include "suites/catalog.hpp"
#include "suites/cli/command.hpp"
#include "suites/cli/print.hpp"
#include "suites/cli/search.hpp"

namespace misfire::cli {
namespace {

constexpr std::string_view owners[] = {"job", "framework", "data", "node", "fabric", "storage", "scheduler", "driver"};

struct ListOptions {
  std::string scenario, owner;
  bool json = false, names = false;
};

std::string symptom(const Call& call) {
  if (call.positional == std::vector<std::string>{"-"}) return {std::istreambuf_iterator<char>(std::cin), {}};
  return join(call.positional, " ");
}

/// One line of it.
std::string shortened(const std::string& text) {
  constexpr std::size_t most = 90;
  return text.size() <= most ? text : text.substr(0, text.rfind(' ', most)) + " ...";
}

int list(const ListOptions& asked, const Call& call) {
  if (!asked.scenario.empty()) scenario(asked.scenario);
  std::vector<Failure> failures;
  for (const std::string& path : shipped_failures(asked.scenario)) {
    Failure failure = read_failure(path, vocabulary());
    if (asked.owner.empty() || failure.owner == asked.owner) failures.push_back(std::move(failure));
  }
  std::vector<Match> matches;
  const std::string text = symptom(call);
  if (call.positional.empty()) {
    for (std::size_t i = 0; i < failures.size(); ++i) matches.push_back({.index = i});
  } else {
    matches = search(failures, text);
  }

  if (asked.json) {
    Json list = Json::array();
    for (const Match& match : matches) {
      const Failure& failure = failures[match.index];
      Json entry = Json::object();
      for (const char* key : {"name", "scenario", "summary", "owner", "action", "needs", "search_for"})
        if (const Json* value = failure.source.find(key)) entry.set(key, *value);
      entry.set("path", failure.path);
      if (match.score > 0) entry.set("score", match.score);
      if (!match.because.empty()) entry.set("matched", match.because);
      list.push_back(std::move(entry));
    }
    print(list.dump(2) + "\n");
  } else if (asked.names) {
    for (const Match& match : matches) print(failures[match.index].name + "\n");
  } else {
    std::vector<std::vector<std::string>> rows;
    for (const Match& match : matches) {
      const Failure& failure = failures[match.index];
      rows.push_back({failure.name, failure.owner, failure.summary});
      if (!match.because.empty()) rows.push_back({"", "", "matches \"" + shortened(match.because) + "\""});
    }
    print(columns(rows));
    if (!call.positional.empty() && !matches.empty())
      print("\nNext: misfire show " + failures[matches.front().index].name + "\n");
  }
  if (!matches.empty()) return 0;
  check_output();
  std::cerr << (call.positional.empty() ? "misfire: no failure is there for that scenario and owner\n"
                                        : "misfire: no failure resembles that text; 'misfire list' shows them all\n");
  return static_cast<int>(Exit::failure);
}

struct ShowOptions {
  std::string options;
  bool json = false;
};

std::string need_text(const std::string& name) {
  const Capability& found = capability(name);
  if (found.present) return name + ": here (" + found.reason + ")";
  return name + ": missing here (" + found.reason + ")" + (found.remedy.empty() ? "" : "; " + found.remedy);
}

std::string arm_text(const Arm& arm) {
  std::string text = arm.name + ": ";
  if (arm.role == Role::popular_advice)
    text += arm.expect_present ? "popular advice that does not help" : "popular advice that helps";
  if (arm.role == Role::lookalike) text += "look-alike, told apart";
  if (arm.role == Role::remedied) text += "the remedy";
  if (arm.role == Role::control) text += "healthy";
  if (arm.role == Role::faulty) text += "the failure";
  return arm.summary.empty() ? text : text + ": " + arm.summary;
}

std::string describe(const Failure& failure, const std::string& argument) {
  const bool colour = page_colour();
  std::string text = coloured(failure.name, Colour::bold, colour) + "  (scenario " + failure.scenario + ")\n" +
                     wrap(failure.summary, page_width(), 2) + "\n\n";
  text += list_field("seen as", failure.search_for) + "\n";
  text += field("cause", failure.cause) + "\n";
  text += field("remedy", failure.remedy) + "\n";
  text += field("who acts", failure.owner + ": " + failure.action) + "\n";
  if (!failure.said.empty()) text += field("but", failure.said) + "\n";
  std::vector<std::string> arms, signature, needs;
  for (const Arm& arm : failure.arms) arms.push_back(arm_text(arm));
  for (const Condition& condition : failure.signature)
    signature.push_back(condition.describe() + (condition.why.empty() ? "" : ": " + condition.why));
  for (const std::string& need : failure.needs) needs.push_back(need_text(need));
  text += list_field("signature", signature) + "\n";
  text += list_field("arms", arms) + "\n";
  if (failure.dose) {
    std::string values;
    for (const Json& value : failure.dose->values) values += (values.empty() ? "" : ", ") + dose_text(value);
    text += field("dose", failure.dose->key + ": " + values + "; healthy at " + dose_text(failure.dose->neutral) +
                              (failure.dose->onset ? "; sets in at " + dose_text(*failure.dose->onset) : ""));
    text += field("", failure.dose->formula) + "\n";
  }
  text += list_field("needs", needs.empty() ? std::vector<std::string>{"nothing special"} : needs) + "\n";
  if (!failure.sources.empty()) text += list_field("sources", failure.sources) + "\n";
  if (!failure.claims.empty()) text += field("claims", join(failure.claims, ", ")) + "\n";
  text += field("file", failure.path);
  text += "\nNext: misfire reproduce " + shell_quote(argument) + "\n";
  return text;
}

/// What a failure file of that scenario may say: the workloads' options, and the metrics that conditions name.
void show_options(const std::string& name) {
  const Scenario& known = scenario(name);
  print("Scenario " + std::string(known.name) + ": " + std::string(known.summary) + "\n");
  for (std::string_view workload : known.workloads)
    print("\nOptions of the workload '" + std::string(workload) + "', in a failure file with '_' for '-':\n" +
          known.make_workload(workload)->options().help(page_width()));
  std::vector<std::vector<std::string>> rows;
  for (const MetricInfo& metric : known.metrics)
    rows.push_back({std::string(metric.name), std::string(unit_name(metric.unit)), std::string(metric.help)});
  print("\nMetrics:\n" + columns(rows, 2));
}

int show(const ShowOptions& asked, const Call& call) {
  if (!asked.options.empty()) {
    at_most(call, 0);
    show_options(asked.options);
    return 0;
  }
  if (call.positional.empty()) throw Error(ErrorCode::usage, "which failure? give a name of 'misfire list', or a file");
  bool first = true;
  for (const std::string& name : call.positional) {
    const Failure failure = find_failure(name, vocabulary());
    if (asked.json) {
      print(failure.source.dump(2) + "\n");
    } else {
      print((first ? "" : "\n") + describe(failure, name));
    }
    first = false;
  }
  return 0;
}

}  // namespace

Command list_command() {
  const auto asked = std::make_shared<ListOptions>();
  return {
      .name = "list",
      .arguments = "[TEXT...]",
      .summary = "the failures, or those whose symptoms match TEXT",
      .description =
          "TEXT may be a few words or a pasted log line; '-' reads a log from standard input. Exits with 1 when nothing "
          "matches.",
      .options = OptionTable("", {{"scenario", &asked->scenario, "only failures of that scenario", Unit::text, 0, 0, {}, "NAME"},
                                  {"owner",
                                   &asked->owner,
                                   "only those that this party must act on",
                                   Unit::text,
                                   0,
                                   0,
                                   {std::begin(owners), std::end(owners)}},
                                  {"names", &asked->names, "names alone, one a line"},
                                  {"json", &asked->json, "JSON on standard output"}}),
      .run = [asked](const Call& call) { return list(*asked, call); },
      .examples = {
          {"misfire list \"DataLoader worker (pid 4711) is killed by signal: Bus error\"", "what is that, and who must act?"},
          {"kubectl logs trainer-0 | misfire list -", "the same for a whole log"}}};
}

Command show_command() {
  const auto asked = std::make_shared<ShowOptions>();
  return {.name = "show",
          .arguments = "NAME|FILE...",
          .summary = "all that is known of a failure: symptom, cause, remedy, who must act",
          .description =
              "A failure is a name of 'misfire list', or a file of your own (a path with a '/' or ending in .json), which is "
              "checked as it is read.",
          .options = OptionTable("", {{"options",
                                       &asked->options,
                                       "instead: the workload options and metrics of a scenario, for writing failure files",
                                       Unit::text,
                                       0,
                                       0,
                                       {},
                                       "SCENARIO"},
                                      {"json", &asked->json, "the failure file as it is"}}),
          .run = [asked](const Call& call) { return show(*asked, call); },
          .examples = {{"misfire show shm-exhaustion-sigbus", "what happens, and what popular advice gets wrong"},
                       {"misfire show ./mine.json", "check a file of your own"}},
          .subject = Subject::failure};
}

}  // namespace misfire::cli
