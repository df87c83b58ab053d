// misfire doctor, misfire env, misfire faults, misfire schema, misfire version: what this machine and this build can do.

#include <cstdio>
#include <filesystem>
#include <memory>

#include "faults/catalog.hpp"
#include "harness/capability.hpp"
#include "harness/environment.hpp"
#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/progress.hpp"
#include "harness/record.hpp"
#include "harness/text.hpp"
#include "misfire_config.hpp"
#include "suites/catalog.hpp"
#include "suites/cli/command.hpp"
#include "suites/cli/print.hpp"

namespace misfire::cli {
namespace {

struct DoctorOptions {
  std::string require;
  bool json = false;
};

std::vector<std::string> failures_that_need(std::string_view name) {
  std::vector<std::string> found;
  for (const std::string& path : shipped_failures()) {
    const Failure failure = read_failure(path, vocabulary());
    for (const std::string& need : failure.needs)
      if (need == name) found.push_back(failure.name);
  }
  return found;
}

int doctor(const DoctorOptions& asked) {
  std::vector<std::string> names;
  for (const std::string& name : split(asked.require, ','))
    if (!name.empty()) names.push_back(name);
  const bool required = !asked.require.empty();
  if (required && names.empty()) throw Error(ErrorCode::usage, "--require needs the names of capabilities, such as gpu,mpi");
  if (!required)
    for (std::string_view name : capability_names()) names.emplace_back(name);

  const bool colour = page_colour();
  Json list = Json::array();
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    const Capability& found = capability(name);
    if (!found.present) missing.push_back(name);
    const std::vector<std::string> users = failures_that_need(name);
    if (asked.json) {
      Json needed_by = Json::array();
      for (const std::string& user : users) needed_by.push_back(user);
      list.push_back(Json::object({{"name", found.name},
                                   {"present", found.present},
                                   {"reason", found.reason},
                                   {"remedy", found.remedy},
                                   {"unlocks", found.unlocks},
                                   {"needed_by", needed_by}}));
      continue;
    }
    print(coloured(found.present ? "  yes  " : "  no   ", found.present ? Colour::green : Colour::yellow, colour) +
          coloured(found.name, Colour::bold, colour) + "\n" + field("", found.reason));
    if (!found.present) print(field("get it", found.remedy));
    print(field("for", std::string(found.unlocks) + (users.empty() ? "" : ": " + join(users, ", "))));
  }
  if (asked.json) {
    print(list.dump(2) + "\n");
  } else {
    print("\n" + std::to_string(names.size() - missing.size()) + " of " + std::to_string(names.size()) +
          " capabilities are here" + (missing.empty() ? "" : "; missing: " + join(missing, ", ")) + "\n");
  }
  return static_cast<int>(required && !missing.empty() ? Exit::failure : Exit::success);
}

void flatten(const Json& value, const std::string& path, std::vector<std::vector<std::string>>& rows) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.as_object()) flatten(inner, path.empty() ? key : path + "." + key, rows);
  } else if (value.is_array() && !value.as_array().empty() &&
             (value.as_array().front().is_object() || value.as_array().front().is_array())) {
    for (std::size_t i = 0; i < value.as_array().size(); ++i)
      flatten(value.as_array()[i], path + "[" + std::to_string(i) + "]", rows);
  } else {
    rows.push_back({path, value.is_string() ? value.as_string() : value.dump()});
  }
}

int env(bool as_json) {
  Json environment = capture_environment({".", "/dev/shm"});
  const std::string hardware = hardware_class(environment);
  if (as_json) {
    environment.set("hardware_class", hardware);
    print(environment.dump(2) + "\n");
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"hardware_class", hardware}};
  flatten(environment, "", rows);
  print(columns(rows));
  return 0;
}

int faults(bool as_json, const Call& call) {
  at_most(call, 1);
  std::vector<std::string_view> names;
  const FaultEntry* chosen = nullptr;
  for (const FaultEntry& entry : fault_catalog()) {
    names.push_back(entry.name);
    if (!call.positional.empty() && entry.name == call.positional.front()) chosen = &entry;
  }
  if (!call.positional.empty() && chosen == nullptr)
    throw Error(ErrorCode::usage, "no fault is named '" + call.positional.front() + "'" +
                                      did_you_mean(call.positional.front(), names) + "; 'misfire faults' shows them");
  std::vector<std::vector<std::string>> rows;
  Json list = Json::array();
  for (const FaultEntry& entry : fault_catalog()) {
    if (chosen != nullptr && &entry != chosen) continue;
    const auto fault = entry.make();
    const FaultInfo about = fault->info();
    if (as_json) {
      Json needs = Json::array();
      for (std::string_view need : about.needs) needs.push_back(need);
      list.push_back(Json::object({{"name", about.name},
                                   {"summary", about.summary},
                                   {"models", about.models},
                                   {"does_not_model", about.does_not_model},
                                   {"needs", needs},
                                   {"options", fault->options().schema()}}));
    } else if (chosen != nullptr) {
      std::vector<std::string> needs;
      for (std::string_view need : about.needs) needs.emplace_back(need);
      print(std::string(about.name) + "\n" + field("", about.summary) + field("models", about.models) +
            field("but not", about.does_not_model) + field("needs", needs.empty() ? "nothing special" : join(needs, ", ")) +
            "\nOptions, in a failure file with '_' for '-':\n" + fault->options().help(page_width()));
    } else {
      rows.push_back({std::string(about.name), std::string(about.summary)});
    }
  }
  print(as_json ? list.dump(2) + "\n" : columns(rows));
  return 0;
}

constexpr std::string_view schema_suffix = ".schema.json";

/// The published schemas, by name. The option tables say what is allowed below "workload" and "inject".
int schema(const Call& call) {
  at_most(call, 1);
  const std::string directory = shipped_file("results/schema");
  std::vector<std::string> known;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(schema_suffix)) continue;
    name.resize(name.size() - schema_suffix.size());
    known.push_back(name);
  }
  std::sort(known.begin(), known.end());
  if (call.positional.empty()) {
    for (const std::string& name : known) print(name + "\n");
    return 0;
  }
  const std::string& asked = call.positional.front();
  if (std::find(known.begin(), known.end(), asked) == known.end())
    throw Error(ErrorCode::usage, "no schema is named '" + asked + "'" +
                                      did_you_mean(asked, std::vector<std::string_view>(known.begin(), known.end())) +
                                      "; there are " + join(known, ", "));
  print(read_whole_file(directory + "/" + asked + std::string(schema_suffix)));
  return 0;
}

int version(bool as_json) {
  if (!as_json) {
    print(version_text());
    return 0;
  }
  print(Json::object({{"version", MISFIRE_VERSION},
                      {"record_schema", record_schema_version},
                      {"compiler", __VERSION__},
                      {"with", Json::object({{"cuda", MISFIRE_HAVE_CUDA != 0},
                                             {"nccl", MISFIRE_HAVE_NCCL != 0},
                                             {"mpi", MISFIRE_HAVE_MPI != 0},
                                             {"fio", MISFIRE_HAVE_FIO != 0}})}})
            .dump(2) +
        "\n");
  return 0;
}

}  // namespace

Command doctor_command() {
  const auto asked = std::make_shared<DoctorOptions>();
  return {.name = "doctor",
          .summary = "what this machine can do, what that unlocks, and how to get the rest",
          .description = "Each capability is found out by trying it.",
          .options = OptionTable(
              "", {{"require", &asked->require, "only these; exit with 1 when one is missing", Unit::text, 0, 0, {}, "NAME,NAME"},
                   {"json", &asked->json, "JSON on standard output"}}),
          .run = [asked](const Call&) { return doctor(*asked); },
          .examples = {{"misfire doctor --require gpu,mpi", "fail a job early on a broken machine"}}};
}

Command env_command() {
  const auto as_json = std::make_shared<bool>(false);
  return {.name = "env",
          .summary = "what makes records from here comparable: hardware, kernel, limits, load",
          .options = OptionTable("", {{"json", as_json.get(), "JSON on standard output"}}),
          .run = [as_json](const Call&) { return env(*as_json); }};
}

Command faults_command() {
  const auto as_json = std::make_shared<bool>(false);
  return {.name = "faults",
          .arguments = "[NAME]",
          .summary = "the faults that can be injected, or all about one",
          .options = OptionTable("", {{"json", as_json.get(), "JSON on standard output"}}),
          .run = [as_json](const Call& call) { return faults(*as_json, call); },
          .subject = Subject::fault};
}

Command schema_command() {
  return {.name = "schema",
          .arguments = "[failure|record|baseline]",
          .summary = "the JSON schema of a kind of file; without a name, which there are",
          .run = [](const Call& call) { return schema(call); },
          .examples = {{"misfire schema failure > failure.schema.json", "for an editor that checks while you write"}},
          .subject = Subject::word,
          .words = {"failure", "record", "baseline"}};
}

Command version_command() {
  const auto as_json = std::make_shared<bool>(false);
  return {.name = "version",
          .summary = "version, and with --json how it was built",
          .options = OptionTable("", {{"json", as_json.get(), "JSON on standard output"}}),
          .run = [as_json](const Call&) { return version(*as_json); }};
}

}  // namespace misfire::cli
