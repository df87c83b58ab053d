// misfire judge, misfire matrix: what records say, read again. The matrix makes its records first when none are given.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/process.hpp"
#include "harness/seed.hpp"
#include "harness/text.hpp"
#include "results/report.hpp"
#include "suites/catalog.hpp"
#include "suites/cli/command.hpp"
#include "suites/cli/print.hpp"
#include "suites/cli/run.hpp"

namespace misfire::cli {
namespace {

std::string record_in(const std::string& path) { return std::filesystem::is_directory(path) ? path + "/record.jsonl" : path; }

std::string text_of(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

int judge_records(bool as_json, const Call& call) {
  if (call.positional.empty())
    throw Error(ErrorCode::usage, "which record? give record.jsonl of a run, or the directory it lies in");
  std::vector<VerdictKind> kinds;
  Json list = Json::array();
  bool first = true;
  for (const std::string& path : call.positional) {
    const RunRecord run = read_run_record(record_in(path));
    const Failure failure = failure_of(run, vocabulary());
    const Verdict verdict = judge_run(run, vocabulary());
    kinds.push_back(verdict.kind);
    const std::string before = text_of(run.verdict, "verdict");
    const bool differs =
        !before.empty() && (before != verdict_name(verdict.kind) || text_of(run.verdict, "reason") != verdict.reason);
    if (as_json) {
      Json json = Json::object({{"record", path}, {"failure", failure.name}});
      const Json judged = verdict.to_json();
      for (const auto& [key, value] : judged.as_object()) json.set(key, value);
      if (!before.empty()) json.set("recorded_verdict", before);
      list.push_back(std::move(json));
    } else {
      print((first ? "" : "\n") + verdict_text(failure, verdict, text_of(run.header, "replay"), {page_width(), page_colour()}));
      if (differs) print("  recorded  " + before + ", " + text_of(run.verdict, "reason") + "\n");
    }
    first = false;
  }
  if (as_json) print(list.dump(2) + "\n");
  return static_cast<int>(exit_for(kinds));
}

struct MatrixOptions {
  std::string scenario, output, data;
  std::uint64_t seed = 0;
  bool json = false;
};

/// Control and faulty arm of one failure.
RunRecord run_row(const Failure& failure, int blocks, const MatrixOptions& asked, std::uint64_t seed,
                  const OutputDirectory& output, const std::string& program, Progress& progress) {
  RunPlan plan{.failure = failure,
               .argument = failure.name,
               .cells = control_and_faulty(failure),
               .seed = seed,
               .directory = output.path() + "/" + failure.name,
               .data = output.data(asked.data),
               .judged = false};
  plan.command =
      shell_quote(std::vector<std::string>{program, "matrix", "--scenario", asked.scenario, "--seed", std::to_string(seed)});
  plan.replay = plan.command;
  plan.blocks = blocks;
  const RunResult result = run_failure(plan, progress);
  if (result.verdict.kind == VerdictKind::error || result.verdict.kind == VerdictKind::leak)
    progress.note("  " + failure.name + ": " + result.verdict.explanation);
  return read_run_record(result.record);
}

Json matrix_json(const Matrix& matrix) {
  Json cells = Json::array(), problems = Json::array(), skipped = Json::array();
  for (std::size_t i = 0; i < matrix.names.size(); ++i)
    for (std::size_t j = 0; j < matrix.cells[i].size(); ++j)
      cells.push_back(Json::object({{"failure", matrix.names[i]},
                                    {"signature", matrix.names[j]},
                                    {"presence", presence_name(matrix.cells[i][j].presence)},
                                    {"trials", matrix.cells[i][j].trials}}));
  for (const Matrix::Problem& problem : matrix.problems)
    problems.push_back(Json::object({{"failure", problem.failure}, {"signature", problem.signature}, {"why", problem.why}}));
  for (const Matrix::Problem& row : matrix.skipped) skipped.push_back(Json::object({{"failure", row.failure}, {"why", row.why}}));
  return Json::object({{"diagonal", matrix.diagonal()}, {"cells", cells}, {"problems", problems}, {"skipped", skipped}});
}

int matrix(MatrixOptions asked, const Call& call) {
  if (asked.scenario.empty()) throw Error(ErrorCode::usage, "which scenario? give --scenario NAME");
  scenario(asked.scenario);
  std::vector<Failure> failures;
  for (const std::string& path : shipped_failures(asked.scenario)) failures.push_back(read_failure(path, vocabulary()));
  if (failures.empty()) throw Error(ErrorCode::not_found, "the scenario '" + asked.scenario + "' has no failures");

  std::vector<RunRecord> runs;
  for (const std::string& path : call.positional) runs.push_back(read_run_record(record_in(path)));
  if (runs.empty()) {
    const std::uint64_t seed = asked.seed != 0 ? asked.seed : Seed::random().value() >> 16;
    std::fprintf(stderr, "seed %llu (replay with --seed %llu)\n", static_cast<unsigned long long>(seed),
                 static_cast<unsigned long long>(seed));
    install_stop_signals();
    const OutputDirectory output(asked.output, "matrix-" + asked.scenario);
    Progress progress;
    prepare_data(asked.scenario, output.data(asked.data), progress);
    int blocks = 1;  // as many as the most demanding signature needs: each row is judged by all of them
    for (const Failure& failure : failures) blocks = std::max(blocks, looks(failure).front());
    for (const Failure& failure : failures) {
      if (!stop_requested()) runs.push_back(run_row(failure, blocks, asked, seed, output, call.program, progress));
      if (stop_requested()) return 128 + stop_signal();
    }
  }

  const Matrix result = confusion_matrix(failures, runs);
  print(asked.json ? matrix_json(result).dump(2) + "\n" : matrix_text(result, {page_width(), page_colour()}));
  std::vector<VerdictKind> ours;
  for (const RunRecord& run : runs)
    for (const TrialRecord& trial : run.trials) {
      if (text_of(trial.outcome, "kind") == "error") ours.push_back(VerdictKind::error);
      const Json* leaks = trial.outcome.find("leaks");
      if (leaks != nullptr && leaks->is_array() && !leaks->as_array().empty()) ours.push_back(VerdictKind::leak);
    }
  if (!ours.empty()) return static_cast<int>(exit_for(ours));
  if (result.skipped.size() == result.names.size()) return static_cast<int>(Exit::skipped);
  return static_cast<int>(result.diagonal() ? Exit::success : Exit::failure);
}

}  // namespace

Command judge_command() {
  const auto as_json = std::make_shared<bool>(false);
  return {
      .name = "judge",
      .arguments = "RECORD...",
      .summary = "the verdict of a record, again, here",
      .description =
          "RECORD is the record.jsonl of a run, or its directory. The failure file is the one embedded in the record; nothing "
          "is run. The exit code is that of the verdict, of several the worst.",
      .options = OptionTable("", {{"json", as_json.get(), "JSON on standard output"}}),
      .run = [as_json](const Call& call) { return judge_records(*as_json, call); },
      .examples = {{"misfire judge misfire-out/shm-exhaustion-sigbus-20260504T123000Z", "what did that run show?"}},
      .subject = Subject::record};
}

Command matrix_command() {
  const auto asked = std::make_shared<MatrixOptions>();
  return {
      .name = "matrix",
      .arguments = "[RECORD...]",
      .summary = "every failure of a scenario, judged by every signature",
      .description =
          "Each failure must be recognised as itself and only as itself, or as one that it declares to imply. Without records "
          "the control and faulty arms of all failures are run first. Exits with 0 when the matrix is diagonal, else 1.",
      .options = OptionTable(
          "MISFIRE",
          {{"scenario", &asked->scenario, "which", Unit::text, 0, 0, {}, "NAME"},
           {"seed", &asked->seed, "seed of the runs; 0: a fresh one", Unit::count, 0, 18446744073709549568.0, {}, "N"},
           {"output", &asked->output, "where records go; default misfire-out/matrix-NAME-TIME", Unit::text, 0, 0, {}, "DIR", 'o'},
           {"data", &asked->data, "prepared data, as in 'misfire reproduce'", Unit::text, 0, 0, {}, "DIR"},
           {"json", &asked->json, "JSON on standard output"}}),
      .run = [asked](const Call& call) { return matrix(*asked, call); },
      .examples = {{"misfire matrix --scenario dataloader", "are they told apart here?"}},
      .subject = Subject::record};
}

}  // namespace misfire::cli
