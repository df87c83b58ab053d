// misfire baseline: figures of a scenario's healthy cases on this class of hardware, kept, and compared later.
// misfire claims: published figures beside what was measured here.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "harness/environment.hpp"
#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/process.hpp"
#include "harness/seed.hpp"
#include "harness/text.hpp"
#include "misfire_config.hpp"
#include "results/baseline.hpp"
#include "results/claims.hpp"
#include "suites/catalog.hpp"
#include "suites/cli/command.hpp"
#include "suites/cli/host.hpp"
#include "suites/cli/print.hpp"
#include "suites/cli/run.hpp"

namespace misfire::cli {
namespace {

using namespace std::chrono_literals;

struct BaselineOptions {
  std::string scenario = "dataloader", directory, output, data;
  std::vector<std::string> cases;
  int launches = 5;
  std::uint64_t seed = 0;
  bool json = false;
};

/// The healthy cases of a scenario, and the metrics that a baseline keeps of them: those that cases.json names, else every
/// number.
struct Cases {
  std::vector<std::string> names, metrics;
};

Cases cases_of(const BaselineOptions& asked) {
  const Json file = Json::read_file(shipped_file("suites/" + asked.scenario + "/cases.json"));
  Cases cases;
  std::vector<std::string_view> known;
  for (const auto& [name, options] : file.at("cases").as_object()) known.push_back(name);
  for (const std::string& name : asked.cases)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(ErrorCode::usage, "no healthy case is named '" + name + "'" + did_you_mean(name, known));
  cases.names = asked.cases;
  if (cases.names.empty()) cases.names.assign(known.begin(), known.end());
  if (const Json* metrics = file.find("metrics")) {
    for (const Json& metric : metrics->as_array()) cases.metrics.push_back(metric.as_string());
  } else {
    for (const MetricInfo& metric : scenario(asked.scenario).metrics)
      if (metric.unit != Unit::text) cases.metrics.emplace_back(metric.name);
  }
  return cases;
}

/// Commit of the source tree that this was built from, or "" for an installed program.
std::string commit() {
  if (find_program("git").empty() || !std::filesystem::exists(MISFIRE_SOURCE_DIR)) return "";
  const ProcessResult result = run_process({.argv = {"git", "-C", MISFIRE_SOURCE_DIR, "rev-parse", "HEAD"}, .timeout = 10s});
  return result.exit_code == 0 ? split(result.out, '\n').front() : "";
}

BaselineLaunch launch(const BaselineOptions& asked, const std::string& name, const std::vector<std::string>& metrics,
                      std::uint64_t seed, const OutputDirectory& output, int number, Progress& progress) {
  progress.begin("[" + std::to_string(number) + "] " + name);
  const std::string record = output.path() + "/launch-" + std::to_string(number) + ".jsonl";
  HostWatch host(output.path());
  const std::string data = std::filesystem::absolute(output.data(asked.data)).lexically_normal().string();
  const ProcessResult result = run_process({.argv = {scenario_executable(asked.scenario), "--case", name, "--seed",
                                                     std::to_string(seed), "--record", record, "--data", data, "--no-raw"},
                                            .environment = host.environment(),
                                            .timeout = 120s,
                                            .poll = [&] { progress.update(); }});
  const std::vector<std::string> left = host.clean();
  if (result.interrupted) {
    progress.end("interrupted", Colour::yellow);
    return {};
  }
  const auto failed = [&](const std::string& why) -> Error {
    progress.end("failed", Colour::red);
    return Error(ErrorCode::io, "the healthy case '" + name + "' " + why + "; nothing was kept");
  };
  if (result.exit_code != 0) throw failed("could not be run: " + result.err.substr(0, result.err.find('\n')));
  if (!left.empty()) throw failed("left behind: " + join(left, ", "));
  const std::vector<TrialRecord> trials = read_trial_records(record);
  if (trials.size() != 1 || !trials.front().complete) throw failed("left no whole record");
  const TrialRecord& trial = trials.front();
  const Json* kind = trial.outcome.find("kind");
  if (kind == nullptr || !(*kind == Json("ok"))) throw failed("did not end well: " + trial.outcome.dump());

  BaselineLaunch made;
  made.case_name = name;
  made.seed = seed;
  for (const std::string& metric : metrics) {
    const Metric* found = trial.metric(metric);
    if (found != nullptr && !found->is_text()) {
      made.metrics.push_back(*found);
    } else {
      made.missing.emplace_back(metric, trial.why_missing(metric));
    }
  }
  const Metric* first = made.metrics.empty() ? nullptr : &made.metrics.front();
  progress.end(first ? first->name + " " + value_text(first->number(), first->unit) : "nothing measured");
  return made;
}

/// One sitting: every case so many times, in an order drawn from the seed.
BaselineSession sit(const BaselineOptions& asked, const OutputDirectory& output) {
  const Cases cases = cases_of(asked);
  const std::uint64_t seed = asked.seed != 0 ? asked.seed : Seed::random().value() >> 16;
  std::fprintf(stderr, "seed %llu (replay with --seed %llu)\n", static_cast<unsigned long long>(seed),
               static_cast<unsigned long long>(seed));
  Progress progress;
  prepare_data(asked.scenario, output.data(asked.data), progress);
  BaselineSession session;
  session.started = utc_now();
  session.version = MISFIRE_VERSION;
  session.commit = commit();
  session.environment = capture_environment({"."});
  int number = 0;
  for (int round = 0; round < asked.launches; ++round) {
    std::vector<std::string> names = cases.names;
    Stream order = Seed(seed).stream("order").substream(static_cast<std::uint64_t>(round));
    for (std::size_t i = names.size(); i > 1; --i) std::swap(names[i - 1], names[order.below(i)]);
    for (const std::string& name : names) {
      if (stop_requested()) return session;
      session.launches.push_back(launch(asked, name, cases.metrics,
                                        Seed(seed).stream("launch").at(static_cast<std::uint64_t>(number)), output, number + 1,
                                        progress));
      ++number;
    }
  }
  return session;
}

int baseline(const BaselineOptions& asked, const Call& call) {
  constexpr std::string_view actions[] = {"record", "compare"};
  if (call.positional.empty()) throw Error(ErrorCode::usage, "record or compare?");
  at_most(call, 1);
  const std::string& action = call.positional.front();
  if (std::find(std::begin(actions), std::end(actions), action) == std::end(actions))
    throw Error(ErrorCode::usage,
                "no baseline action is named '" + action + "'" + did_you_mean(action, actions) + "; there are record, compare");
  scenario(asked.scenario);

  const std::string directory = asked.directory.empty() ? shipped_file("results/baselines") : asked.directory;
  const std::string hardware = hardware_class(capture_environment());
  const std::string path = baseline_path(directory, hardware, asked.scenario);
  Baseline kept{.hardware_class = hardware, .scenario = asked.scenario, .sessions = {}};
  const bool known = std::filesystem::exists(path);
  if (known) kept = read_baseline(path);
  if (action == "compare" && !known)
    throw Error(ErrorCode::not_found, "no baseline for this hardware, '" + hardware + "': '" + path +
                                          "' is not there; 'misfire baseline record' makes it");

  install_stop_signals();
  const OutputDirectory output(asked.output, "baseline-" + asked.scenario);
  const BaselineSession session = sit(asked, output);
  if (stop_requested()) {
    std::fprintf(stderr, "misfire: interrupted; nothing was kept\n");
    return 128 + stop_signal();
  }
  if (action == "record") {
    add_session(kept, hardware, asked.scenario, session);
    make_directories(std::filesystem::path(path).parent_path().string());
    write_baseline(path, kept);
    print(path + ": " + std::to_string(kept.sessions.size()) + (kept.sessions.size() == 1 ? " session, " : " sessions, ") +
          std::to_string(session.launches.size()) + " launches added\n");
    return 0;
  }
  const BaselineReport report = compare_with_baseline(kept, hardware, session);
  print(asked.json ? report.to_json().dump(2) + "\n" : baseline_report_text(report));
  return static_cast<int>(exit_for(report.result));
}

struct ClaimsOptions {
  std::string scenario, output, data, save;
  std::uint64_t seed = 0;
  bool run = false, json = false;
};

/// Runs what the claims of a scenario are checked by.
std::vector<RunRecord> run_checks(const ClaimsOptions& asked, std::span<const Claim> claims, const Call& call) {
  std::vector<std::string> names;
  for (const Claim& claim : claims)
    for (const ClaimCheck& check : claim.checks)
      if (std::find(names.begin(), names.end(), check.failure) == names.end()) names.push_back(check.failure);
  const std::uint64_t seed = asked.seed != 0 ? asked.seed : Seed::random().value() >> 16;
  std::fprintf(stderr, "seed %llu (replay with --seed %llu)\n", static_cast<unsigned long long>(seed),
               static_cast<unsigned long long>(seed));
  install_stop_signals();
  const OutputDirectory output(asked.output, "claims");
  Progress progress;
  std::vector<RunRecord> runs;
  std::vector<std::string> prepared;
  for (const std::string& name : names) {
    if (stop_requested()) break;
    const Failure failure = find_failure(name, vocabulary());
    if (std::find(prepared.begin(), prepared.end(), failure.scenario) == prepared.end()) {
      prepare_data(failure.scenario, output.data(asked.data), progress);
      prepared.push_back(failure.scenario);
    }
    const std::string command =
        shell_quote(std::vector<std::string>{call.program, "reproduce", name, "--seed", std::to_string(seed)});
    const RunResult result = run_failure({.failure = failure,
                                          .argument = name,
                                          .cells = cells_of_arms(failure, false),
                                          .seed = seed,
                                          .directory = output.path() + "/" + name,
                                          .data = output.data(asked.data),
                                          .command = command,
                                          .replay = command,
                                          .judged = false,
                                          .blocks = claim_blocks},
                                         progress);
    runs.push_back(read_run_record(result.record));
  }
  return runs;
}

int claims(const ClaimsOptions& asked, const Call& call) {
  if (!asked.scenario.empty()) scenario(asked.scenario);
  if (asked.run && !call.positional.empty()) throw Error(ErrorCode::usage, "--run makes the records: leave them out");
  const std::vector<Claim> known = shipped_claims(asked.scenario);
  if (known.empty()) throw Error(ErrorCode::not_found, "there are no claims about '" + asked.scenario + "'");
  std::vector<RunRecord> runs;
  for (const std::string& path : call.positional)
    runs.push_back(read_run_record(std::filesystem::is_directory(path) ? path + "/record.jsonl" : path));
  if (asked.run) runs = run_checks(asked, known, call);
  if (stop_requested()) return 128 + stop_signal();

  ClaimMeasurement measurement = measure_claims(known, runs);
  const std::string shipped =
      shipped_file("results/claims/measured/" + (asked.scenario.empty() ? "dataloader" : asked.scenario) + ".json");
  if (runs.empty() && std::filesystem::exists(shipped)) measurement = read_claim_measurement(shipped);
  if (!asked.save.empty()) write_file_atomically(asked.save, measurement.to_json().dump(2) + "\n");
  std::vector<ClaimResult> results;
  for (const Claim& claim : known) results.push_back(assess(claim, measurement));
  if (asked.json) {
    Json list = Json::array();
    for (const ClaimResult& result : results) list.push_back(result.to_json());
    print(Json::object({{"measurement", measurement.to_json()}, {"claims", list}}).dump(2) + "\n");
  } else {
    print(claims_text(results, measurement, page_width()));
  }
  return 0;
}

}  // namespace

Command baseline_command() {
  const auto asked = std::make_shared<BaselineOptions>();
  return {
      .name = "baseline",
      .arguments = "record|compare",
      .summary = "keep the figures of the healthy cases on this hardware, or compare with what is kept",
      .description =
          "A session runs every case in fresh processes, several times, in random order. Baselines are kept by class of "
          "hardware; those of another class are not compared. With fewer than eight sessions over three days only coarse "
          "floors are checked. 'compare' exits with 0 (pass), 1 (regression), 2 (inconclusive) or 3 (invalid).",
      .options = OptionTable(
          "MISFIRE",
          {{"scenario", &asked->scenario, "which", Unit::text, 0, 0, {}, "NAME"},
           {"case", &asked->cases, "only this healthy case; may be repeated", Unit::text, 0, 0, {}, "NAME"},
           {"launches", &asked->launches, "of each case in the session", Unit::count, 1, 1000},
           {"directory", &asked->directory, "where baselines are kept; default: those that ship", Unit::text, 0, 0, {}, "DIR"},
           {"seed", &asked->seed, "seed of the session; 0: a fresh one", Unit::count, 0, 18446744073709549568.0, {}, "N"},
           {"output",
            &asked->output,
            "where records go; default misfire-out/baseline-NAME-TIME",
            Unit::text,
            0,
            0,
            {},
            "DIR",
            'o'},
           {"data", &asked->data, "prepared data, as in 'misfire reproduce'", Unit::text, 0, 0, {}, "DIR"},
           {"json", &asked->json, "comparison as JSON on standard output"}}),
      .run = [asked](const Call& call) { return baseline(*asked, call); },
      .examples = {{"misfire baseline record --directory ./baselines", "a session more"},
                   {"misfire baseline compare --directory ./baselines", "is this build slower?"}},
      .subject = Subject::word,
      .words = {"record", "compare"}};
}

Command claims_command() {
  const auto asked = std::make_shared<ClaimsOptions>();
  return {.name = "claims",
          .arguments = "[RECORD...]",
          .summary = "published claims, what was measured, and whether they hold",
          .description =
              "Checks the claims against the records given, against runs made now (--run), or else against the measurement that "
              "ships with Misfire, whose hardware is named.",
          .options = OptionTable(
              "MISFIRE",
              {{"scenario", &asked->scenario, "only claims about that scenario", Unit::text, 0, 0, {}, "NAME"},
               {"run", &asked->run, "run the failures that the claims are checked by, here and now"},
               {"save", &asked->save, "write what was measured to that file", Unit::text, 0, 0, {}, "FILE"},
               {"seed", &asked->seed, "seed of the runs; 0: a fresh one", Unit::count, 0, 18446744073709549568.0, {}, "N"},
               {"output", &asked->output, "where records go; default misfire-out/claims-TIME", Unit::text, 0, 0, {}, "DIR", 'o'},
               {"data", &asked->data, "prepared data, as in 'misfire reproduce'", Unit::text, 0, 0, {}, "DIR"},
               {"json", &asked->json, "JSON on standard output"}}),
          .run = [asked](const Call& call) { return claims(*asked, call); },
          .examples = {{"misfire claims --run", "what holds on this machine?"}},
          .subject = Subject::record};
}

}  // namespace misfire::cli
