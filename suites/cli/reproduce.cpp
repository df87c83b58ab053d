// misfire reproduce: runs failures and says what became of them.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/process.hpp"
#include "harness/seed.hpp"
#include "harness/text.hpp"
#include "results/report.hpp"
#include "results/statistics.hpp"
#include "suites/catalog.hpp"
#include "suites/cli/command.hpp"
#include "suites/cli/print.hpp"
#include "suites/cli/run.hpp"

namespace misfire::cli {
namespace {

constexpr std::string_view verdicts[] = {"reproduced", "not_reproduced", "inconclusive", "invalid", "leak", "skipped", "error"};

struct Options {
  std::string scenario, arm, dose, sabotage = "none", expect, output, data, junit, markdown;
  bool all = false, all_arms = false, sweep = false, json = false;
  int repeat = 1, blocks = 0;
  std::uint64_t seed = 0;
  Duration deadline{};
};

/// One failure that was asked for, and how a trial or a replay names it.
struct Target {
  Failure failure;
  std::string trial_argument, replay_argument;
};

std::vector<Target> targets_of(const Options& asked, const Call& call) {
  std::vector<Target> targets;
  const bool several = !asked.scenario.empty() || asked.all;
  if (several && !call.positional.empty())
    throw Error(ErrorCode::usage, "name failures, or ask for all of a scenario, not both: '" + call.positional.front() + "'");
  if (several) {
    if (!asked.scenario.empty()) scenario(asked.scenario);
    for (const std::string& path : shipped_failures(asked.scenario)) {
      Failure failure = read_failure(path, vocabulary());
      if (asked.sweep && !failure.dose) continue;
      const std::string name = failure.name;
      targets.push_back({std::move(failure), name, name});
    }
    if (targets.empty()) throw Error(ErrorCode::not_found, "no failure to run in the scenario '" + asked.scenario + "'");
    return targets;
  }
  for (const std::string& name : call.positional) {
    Failure failure = find_failure(name, vocabulary());
    const bool file = name.find('/') != std::string::npos || name.ends_with(".json");
    targets.push_back({std::move(failure), file ? std::filesystem::absolute(name).lexically_normal().string() : name, name});
  }
  if (targets.empty())
    throw Error(ErrorCode::usage, "which failure? give a name of 'misfire list', a file, or --scenario NAME --all");
  return targets;
}

void check_combination(const Options& asked) {
  const auto refuse = [](const char* what) { throw Error(ErrorCode::usage, what); };
  if (asked.sweep && !asked.dose.empty()) refuse("--sweep runs every dose: leave --dose out");
  if (asked.sweep && asked.all_arms) refuse("--sweep runs the faulty arm and its control: leave --all-arms out");
  if (asked.sweep && asked.sabotage != "none") refuse("--sabotage has no meaning with --sweep");
  if (!asked.arm.empty() && (asked.sweep || asked.all_arms || asked.sabotage != "none" || !asked.expect.empty()))
    refuse("--arm runs that arm alone, without a verdict: leave --sweep, --all-arms, --sabotage and --expect out");
}

/// A report file is written when all has been run: that it can be is found out before.
void check_report(const std::string& path) {
  if (path.empty()) return;
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (::access(parent.empty() ? "." : parent.c_str(), W_OK) != 0) throw system_error("write the report", path, errno);
}

/// Checks that there is something to take away, or to change.
void check_target(const Options& asked, const Failure& failure) {
  if (asked.sabotage == "condition" && failure.condition.empty())
    throw Error(ErrorCode::usage, "'" + failure.name + "' has no condition to take away; --sabotage misuse");
  if (asked.sabotage == "misuse" && failure.misuse.empty())
    throw Error(ErrorCode::usage, "'" + failure.name + "' has no misuse to take away; --sabotage condition");
  if (!asked.dose.empty() && !failure.dose) throw Error(ErrorCode::usage, "'" + failure.name + "' has no dose: leave --dose out");
}

std::vector<Cell> cells_of(const Options& asked, const Failure& failure) {
  if (asked.sweep) return cells_of_sweep(failure);
  const std::string dose = asked.dose.empty() ? "" : dose_text(read_dose(failure, asked.dose));
  if (!asked.arm.empty()) return {{failure.arm(asked.arm).name, dose}};
  if (!dose.empty() && same_dose(read_dose(failure, dose), failure.dose->neutral)) return control_and_faulty(failure, dose);
  return cells_of_arms(failure, asked.all_arms, dose);
}

std::string replay_of(const Options& asked, const Call& call, const Target& target, std::uint64_t seed) {
  std::vector<std::string> words{call.program, "reproduce", target.replay_argument, "--seed", std::to_string(seed)};
  const auto also = [&](const char* flag, const std::string& value) {
    if (value.empty()) return;
    words.emplace_back(flag);
    words.push_back(value);
  };
  also("--arm", asked.arm);
  also("--dose", asked.dose);
  if (asked.sweep) words.emplace_back("--sweep");
  if (asked.all_arms) words.emplace_back("--all-arms");
  if (asked.sabotage != "none") also("--sabotage", asked.sabotage);
  if (asked.blocks > 0 && !target.failure.invariant) also("--blocks", std::to_string(asked.blocks));
  if (asked.deadline > Duration::zero()) also("--deadline", std::to_string(asked.deadline.count()) + "ns");
  also("--data", asked.data);
  return shell_quote(words);
}

std::string metrics_text(const std::vector<TrialRecord>& trials) {
  std::string text;
  for (const TrialRecord& trial : trials) {
    std::vector<std::vector<std::string>> rows;
    for (const Metric& metric : trial.metrics)
      rows.push_back({metric.name, metric.is_text() ? metric.text() : value_text(metric.number(), metric.unit)});
    for (const auto& [name, why] : trial.missing) rows.push_back({name, "not measured: " + why});
    const Json* what = trial.outcome.find("what");
    text += trial.failure + ", arm " + trial.arm + (trial.dose.empty() ? "" : " at dose " + trial.dose) + "\n" + columns(rows, 2);
    if (what && what->is_string() && !what->as_string().empty()) text += wrap(what->as_string(), page_width(), 2) + "\n";
    if (!trial.replay.empty()) text += "  trial     " + trial.replay + "\n";
  }
  return text;
}

Json metrics_json(const std::vector<TrialRecord>& trials) {
  Json list = Json::array();
  for (const TrialRecord& trial : trials) {
    Json metrics = Json::object(), missing = Json::object();
    for (const Metric& metric : trial.metrics)
      metrics.set(metric.name, metric.is_text() ? Json(metric.text()) : Json(metric.number()));
    for (const auto& [name, why] : trial.missing) missing.set(name, why);
    list.push_back(Json::object(
        {{"arm", trial.arm}, {"dose", trial.dose}, {"outcome", trial.outcome}, {"metrics", metrics}, {"missing", missing}}));
  }
  return list;
}

/// All runs of one command, and what is said of them.
class Reproduction {
 public:
  Reproduction(const Options& asked, const Call& call) : asked_(asked), call_(call), targets_(targets_of(asked, call)) {
    check_combination(asked);
    check_report(asked.junit);
    check_report(asked.markdown);
    for (Target& target : targets_) {
      check_target(asked, target.failure);
      const bool alone = targets_.size() == 1;
      if (asked.blocks > 0 && (alone || !target.failure.invariant))
        target.failure = with_blocks(target.failure, asked.blocks, vocabulary());
      cells_.push_back(cells_of(asked, target.failure));
    }
    seed_ = asked.seed != 0 ? asked.seed : Seed::random().value() >> 16;  // short enough for every reader of JSON numbers
  }

  int run() {
    std::fprintf(stderr, "seed %llu (replay with --seed %llu)\n", static_cast<unsigned long long>(seed_),
                 static_cast<unsigned long long>(seed_));
    install_stop_signals();
    const bool several = targets_.size() > 1;
    const OutputDirectory output(
        asked_.output, several ? (asked_.scenario.empty() ? "failures" : asked_.scenario) : targets_.front().failure.name);
    const std::int64_t begin = monotonic_ns();
    prepare(output.data(asked_.data));
    for (std::size_t i = 0; i < targets_.size() && !stop_requested(); ++i)
      for (int k = 0; k < asked_.repeat && !stop_requested(); ++k) {
        std::string directory = output.path();
        if (several) directory += "/" + targets_[i].failure.name;
        if (asked_.repeat > 1) directory += "/run-" + std::to_string(k + 1);
        one(targets_[i], cells_[i], k, directory, output.data(asked_.data));
      }
    return conclude(to_seconds(Duration(monotonic_ns() - begin)));
  }

 private:
  void prepare(const std::string& data) {
    std::vector<std::string> done;
    for (const Target& target : targets_) {
      const std::string& scenario = target.failure.scenario;
      if (std::find(done.begin(), done.end(), scenario) != done.end() || stop_requested()) continue;
      prepare_data(scenario, data, progress_);
      done.push_back(scenario);
    }
  }

  void one(const Target& target, const std::vector<Cell>& cells, int repetition, const std::string& directory,
           const std::string& data) {
    const std::uint64_t seed =
        repetition == 0 ? seed_ : Seed(seed_).stream("repeat").at(static_cast<std::uint64_t>(repetition)) >> 16;
    std::vector<std::string> typed{call_.program};
    typed.insert(typed.end(), call_.arguments.begin(), call_.arguments.end());
    const RunPlan plan{.failure = target.failure,
                       .argument = target.trial_argument,
                       .cells = cells,
                       .seed = seed,
                       .directory = directory,
                       .data = data,
                       .sabotage = asked_.sabotage,
                       .deadline = asked_.deadline,
                       .command = shell_quote(typed),
                       .replay = replay_of(asked_, call_, target, seed),
                       .judged = asked_.arm.empty()};
    if (repetition == 0)
      progress_.note("\n" + target.failure.name + "\n" + wrap(target.failure.cause, std::min(terminal_width(2), 120), 2));
    const RunResult result = run_failure(plan, progress_);
    Json json = Json::object({{"failure", target.failure.name}});
    if (result.interrupted) {
      interrupted_ = true;
      json.set("verdict", "interrupted");
    } else {
      if (!plan.judged) {
        json.set("trials", metrics_json(result.trials));
      } else {
        const Json verdict = result.verdict.to_json();
        for (const auto& [key, value] : verdict.as_object()) json.set(key, value);
      }
      kinds_.push_back(result.verdict.kind);
      std::string name = target.failure.name;
      if (asked_.repeat > 1) name += " #" + std::to_string(repetition + 1);
      rows_.push_back({name, result.verdict.kind, result.verdict.reason, result.verdict.explanation, result.verdict.partial,
                       result.seconds, plan.replay});
      if (!asked_.markdown.empty() && plan.judged)
        markdown_ += verdict_markdown(target.failure, result.verdict, plan.replay) + "\n";
    }
    for (auto& [key, value] : std::initializer_list<std::pair<const char*, Json>>{
             {"seed", seed}, {"seconds", result.seconds}, {"record", result.record}, {"replay", plan.replay}})
      json.set(key, value);
    runs_.push_back(std::move(json));
    if (asked_.json || result.interrupted) return;
    if (!plan.judged && result.verdict.kind != VerdictKind::skipped) {
      print(metrics_text(result.trials) + "  record    " + result.record + "\n  replay    " + plan.replay + "\n");
      if (result.verdict.kind != VerdictKind::reproduced)
        print("  " + verdict_word(result.verdict.kind, page_colour()) + ": " + result.verdict.explanation + "\n");
    } else {
      print("\n" + verdict_text(target.failure, result.verdict, plan.replay, style()) + "  record    " + result.record + "\n");
    }
    std::fflush(stdout);
  }

  static ReportStyle style() { return {.width = page_width(), .colour = page_colour()}; }

  int conclude(double seconds) {
    const int code = exit_code();
    if (asked_.json) {
      Json whole = Json::object({{"schema", 1}, {"seed", seed_}, {"seconds", seconds}, {"exit_code", code}, {"runs", runs_}});
      if (asked_.repeat > 1) whole.set("repeat", repetitions_json());
      print(whole.dump(2) + "\n");
    } else if (rows_.size() > 1) {
      for (const std::string& line : repetitions_text()) print("\n" + line + "\n");
      print("\n" + summary_text(rows_, seconds, style()));
    }
    if (!asked_.junit.empty())
      write_file_atomically(asked_.junit, summary_junit(rows_, seconds, "misfire." + targets_.front().failure.scenario));
    if (!asked_.markdown.empty())
      write_file_atomically(asked_.markdown, markdown_ + (rows_.size() > 1 ? summary_markdown(rows_, seconds) : ""));
    if (interrupted_ || stop_requested())
      std::fprintf(stderr, "misfire: interrupted; the records so far are kept\n");
    else if (!asked_.expect.empty())
      std::fprintf(stderr, "expected %s: %s\n", asked_.expect.c_str(), code == 0 ? "so it is" : "not so");
    return code;
  }

  int exit_code() const {
    if (interrupted_ || stop_requested()) return 128 + stop_signal();
    const int code = static_cast<int>(exit_for(kinds_));
    if (!asked_.arm.empty() || asked_.expect.empty() || kinds_.empty()) return code;
    const bool met =
        std::all_of(kinds_.begin(), kinds_.end(), [&](VerdictKind kind) { return verdict_name(kind) == asked_.expect; });
    if (met) return 0;
    const bool ours = code == static_cast<int>(Exit::internal) || code == static_cast<int>(Exit::leak);
    return ours || code == static_cast<int>(Exit::skipped) ? code : static_cast<int>(Exit::failure);
  }

  struct Count {
    std::string failure;
    std::map<std::string, std::size_t> of;  ///< by verdict
    std::size_t total = 0;
  };
  std::vector<Count> repetitions() const {
    std::vector<Count> counts;
    for (const SummaryRow& row : rows_) {
      const std::string name = row.failure.substr(0, row.failure.find(" #"));
      if (counts.empty() || counts.back().failure != name) counts.push_back({name, {}, 0});
      ++counts.back().of[std::string(verdict_name(row.kind))];
      ++counts.back().total;
    }
    return counts;
  }
  static Interval share(const Count& count, std::size_t number) { return proportion_interval(number, count.total, 0.95); }

  std::vector<std::string> repetitions_text() const {
    std::vector<std::string> lines;
    if (asked_.repeat < 2) return lines;
    for (const Count& count : repetitions()) {
      std::string line = count.failure + ":";
      for (const auto& [verdict, number] : count.of) {
        const Interval interval = share(count, number);
        char text[96];
        std::snprintf(text, sizeof text, " %s %zu of %zu (95 %%: %.1f to %.1f %%)", verdict.c_str(), number, count.total,
                      100 * interval.low, 100 * interval.high);
        line += text;
      }
      lines.push_back(line);
    }
    return lines;
  }
  Json repetitions_json() const {
    Json list = Json::array();
    for (const Count& count : repetitions())
      for (const auto& [verdict, number] : count.of) {
        const Interval interval = share(count, number);
        list.push_back(Json::object({{"failure", count.failure},
                                     {"verdict", verdict},
                                     {"count", number},
                                     {"of", count.total},
                                     {"low", interval.low},
                                     {"high", interval.high},
                                     {"coverage", 0.95}}));
      }
    return list;
  }

  const Options& asked_;
  const Call& call_;
  std::vector<Target> targets_;
  std::vector<std::vector<Cell>> cells_;
  std::uint64_t seed_ = 0;
  Progress progress_;
  bool interrupted_ = false;
  std::vector<VerdictKind> kinds_;
  std::vector<SummaryRow> rows_;
  Json runs_ = Json::array();
  std::string markdown_;
};

}  // namespace

Command reproduce_command() {
  const auto asked = std::make_shared<Options>();
  return {
      .name = "reproduce",
      .arguments = "NAME|FILE...",
      .summary = "run a failure: control, faulty and remedied arms, evidence, verdict",
      .description =
          "Each trial is a process tree of its own. Blocks of one trial an arm, in an order drawn from the seed, are run until "
          "the "
          "verdict is decided; what was measured is kept in the output directory (record.jsonl), which 'misfire judge' reads "
          "again. "
          "The seed and progress go to standard error, the report to standard output.\n\n"
          "Several failures: the worst verdict decides the exit code (70, 4, 3, 1, 2 in this order; 77 only if all were "
          "skipped).\n\n"
          "Every option can also be given as an environment variable, MISFIRE_DATA for --data. Nothing is written outside the "
          "output directory and the data directory.",
      .options = OptionTable(
          "MISFIRE",
          {{"scenario", &asked->scenario, "all failures of that scenario", Unit::text, 0, 0, {}, "NAME"},
           {"all", &asked->all, "all failures (of --scenario, when given)"},
           {"arm", &asked->arm, "that arm alone, without a verdict: its metrics", Unit::text, 0, 0, {}, "NAME"},
           {"all_arms", &asked->all_arms, "also the arms of popular advice and look-alikes"},
           {"dose",
            &asked->dose,
            "another dose than the file's own; the neutral one must read healthy",
            Unit::text,
            0,
            0,
            {},
            "VALUE"},
           {"sweep", &asked->sweep, "every dose of the file: onset and monotony"},
           {"repeat", &asked->repeat, "runs of each failure, each with a seed of its own", Unit::count, 1, 100000},
           {"seed", &asked->seed, "seed of the run; 0: a fresh one", Unit::count, 0, 18446744073709549568.0, {}, "N"},
           {"blocks", &asked->blocks, "blocks at the first look, for failures that are not invariants; 0: as the file says",
            Unit::count, 0, 50},
           {"deadline", &asked->deadline, "of one trial; 0: as the file says", Unit::seconds, 0, 1e6},
           {"output",
            &asked->output,
            "where records go, made if needed; default misfire-out/NAME-TIME",
            Unit::text,
            0,
            0,
            {},
            "DIR",
            'o'},
           {"data",
            &asked->data,
            "prepared data, made if needed; default DIR/data below an output directory that is given, else misfire-out/data",
            Unit::text,
            0,
            0,
            {},
            "DIR"},
           {"json", &asked->json, "verdicts as JSON on standard output"},
           {"junit", &asked->junit, "verdicts as JUnit XML", Unit::text, 0, 0, {}, "FILE"},
           {"markdown", &asked->markdown, "verdicts as markdown, for a job's summary", Unit::text, 0, 0, {}, "FILE"},
           {"expect",
            &asked->expect,
            "exit with 0 if every verdict is this one, else with 1 (errors, leaks and skips keep their codes)",
            Unit::text,
            0,
            0,
            {std::begin(verdicts), std::end(verdicts)}},
           {"sabotage",
            &asked->sabotage,
            "check Misfire itself: take the condition or the misuse out of the faulty arm (verdict: invalid), or judge by a "
            "signature that cannot hold (not reproduced)",
            Unit::text,
            0,
            0,
            {"none", "condition", "misuse", "signature"}}}),
      .run = [asked](const Call& call) { return Reproduction(*asked, call).run(); },
      .examples = {{"misfire reproduce shm-exhaustion-sigbus", "watch it happen, and the remedy cure it"},
                   {"misfire reproduce ./mine.json --all-arms", "a failure of your own, with its look-alikes"},
                   {"misfire reproduce --scenario dataloader --all --junit out.xml", "all of a scenario, for CI"},
                   {"misfire reproduce no-workers-serial --repeat 20 --expect reproduced", "how often, with its interval"}},
      .subject = Subject::failure};
}

}  // namespace misfire::cli
