#include "harness/trial.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "harness/capability.hpp"
#include "harness/containment.hpp"
#include "harness/environment.hpp"
#include "harness/process.hpp"
#include "harness/record.hpp"
#include "harness/text.hpp"
#include "harness/witness.hpp"

namespace misfire {
namespace {

Sabotage sabotage_of(const std::string& name) {
  return name == "condition" ? Sabotage::condition : name == "misuse" ? Sabotage::misuse : Sabotage::none;
}

/// The dose as it is typed: a number where it reads as one, else text ("16MiB").
std::optional<Json> dose_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end && *end == '\0')
    return number == static_cast<double>(static_cast<std::int64_t>(number)) ? Json(static_cast<std::int64_t>(number))
                                                                            : Json(number);
  if (text == "true" || text == "false") return Json(text == "true");
  return Json(text);
}

/// The file of the raw events. Not written beside and renamed, as the witness may be killed before it comes to that.
struct RawFile {
  int descriptor = -1;
  explicit RawFile(const std::string& path) {
    if (path.empty()) return;
    descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0) throw system_error("write the raw events", path, errno);
  }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  ~RawFile() {
    if (descriptor >= 0) close(descriptor);
  }
};

}  // namespace

OptionTable TrialOptions::table() {
  return OptionTable(
      "", {
              {"failure", &failure, "failure to run a trial of: a shipped name, or a file", Unit::text, 0, 0, {}, "NAME|FILE"},
              {"arm", &arm, "arm of that failure", Unit::text, 0, 0, {}, "NAME"},
              {"dose", &dose, "dose instead of the file's own", Unit::text, 0, 0, {}, "VALUE"},
              {"sabotage",
               &sabotage,
               "leave out what the file says is there, to check the verdict",
               Unit::text,
               0,
               0,
               {"none", "condition", "misuse"}},
              {"seed", &seed, "64-bit seed", Unit::count, 0, 1.8446744073709552e19},
              {"record", &record, "file to write the record to", Unit::text, 0, 0, {}, "FILE"},
              {"deadline", &deadline, "end the trial after this long; 0: what the failure file says", Unit::seconds, 0, 1e6},
              {"block", &block, "number of the block, for the record", Unit::count, 0, 1e6},
              {"data", &data, "directory of prepared data", Unit::text, 0, 0, {}, "DIR"},
              {"raw", &raw, "also write the raw events to <record>.raw"},
          });
}

Exit run_planned_trial(const Scenario& scenario, std::span<const FaultEntry> faults, const TrialPlan& plan,
                       const TrialOptions& options, const Json& header) {
  if (options.record.empty()) throw Error(ErrorCode::usage, "a trial needs --record FILE");
  TrialOptions absolute = options;  // the witness changes its directory
  absolute.record = std::filesystem::absolute(options.record).string();
  RecordWriter record = RecordWriter::create(absolute.record);

  const Json* named = plan.workload.find("name");
  const std::string name = named ? named->as_string() : std::string(scenario.workloads.front());
  const auto workload = scenario.make_workload(name);
  OptionTable table = workload->options();
  table.read_environment();
  Json values = Json::object();
  for (const auto& [key, value] : plan.workload.as_object())
    if (key != "name") values.set(key, value);
  table.set(values);

  // Opened here, as the record: inside a user namespace even root may make files only where its own user may.
  const RawFile raw(options.raw ? absolute.record + ".raw" : "");

  Json line = header;
  line.set("scenario", scenario.name);
  line.set("seed", options.seed);
  line.set("block", options.block);
  line.set("has_condition", plan.has_condition);
  line.set("has_misuse", plan.has_misuse);
  WitnessSetup setup{scenario,
                     faults,
                     plan,
                     absolute,
                     *workload,
                     std::move(line),
                     capture_environment({options.data.empty() ? "." : options.data, "/dev/shm"}),
                     options.deadline > Duration::zero() ? options.deadline : std::chrono::seconds(60),
                     raw.descriptor};
  const int code = run_contained([&](const Contained& contained) {
    try {
      return run_witness(setup, contained, record);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "trial: %s\n", error.what());
      return static_cast<int>(Exit::internal);
    }
  });
  if (code > 128) {
    std::fprintf(stderr, "trial: its witness was killed by signal %d; the record is not complete\n", code - 128);
    return Exit::internal;
  }
  return static_cast<Exit>(code);
}

Exit run_trial(const Scenario& scenario, std::span<const FaultEntry> faults, const Vocabulary& vocabulary,
               const TrialOptions& options) {
  const Failure failure = find_failure(options.failure, vocabulary);
  const Arm& arm = failure.arm(options.arm);
  std::vector<std::string> replay{
      self_executable(), "--failure",   options.failure, "--arm", arm.name, "--seed", std::to_string(options.seed),
      "--record",        options.record};
  const auto also = [&](const char* flag, const std::string& value) {
    if (value.empty()) return;
    replay.emplace_back(flag);
    replay.push_back(value);
  };
  also("--dose", options.dose);
  also("--data", options.data);
  if (options.sabotage != "none") also("--sabotage", options.sabotage);
  const Json header = Json::object({{"failure", failure.name},
                                    {"arm", arm.name},
                                    {"role", role_name(arm.role)},
                                    {"dose", options.dose},
                                    {"sabotage", options.sabotage},
                                    {"replay", shell_quote(replay)}});
  for (const std::string& need : failure.needs) {
    const Capability& found = capability(need);
    if (found.present) continue;
    const std::string why = need + ": " + found.reason + (found.remedy.empty() ? "" : "; " + found.remedy);
    if (!options.record.empty()) {
      RecordWriter record = RecordWriter::create(options.record);
      record.write("trial", header);
      record.write("skipped", Json::object({{"capability", need}, {"why", why}}));
    }
    std::fprintf(stderr, "skipped: %s\n", why.c_str());
    return Exit::skipped;
  }
  const TrialPlan plan = compose(failure, arm, dose_of(options.dose), sabotage_of(options.sabotage));
  TrialOptions with_deadline = options;
  if (with_deadline.deadline <= Duration::zero()) with_deadline.deadline = failure.deadline;
  return run_planned_trial(scenario, faults, plan, with_deadline, header);
}

}  // namespace misfire
