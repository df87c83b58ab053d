// The seed of a block is that of all its trials: arms differ by the fault, not by the order of the samples.

#include "suites/cli/run.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>

#include "harness/capability.hpp"
#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/process.hpp"
#include "harness/record.hpp"
#include "harness/seed.hpp"
#include "harness/text.hpp"
#include "misfire_config.hpp"
#include "suites/catalog.hpp"
#include "suites/cli/host.hpp"

namespace misfire::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr Duration default_deadline = 60s;
constexpr Duration beyond_deadline = 10s;  // for the witness to write the record and clean up

/// What a program said last on standard error, without its name.
std::string last_words(const ProcessResult& result) {
  std::string last;
  for (const std::string& line : split(result.err, '\n'))
    if (!line.empty()) last = line;
  const auto colon = last.find(": ");
  if (last.starts_with("misfire-") && colon != std::string::npos) last.erase(0, colon + 2);
  return last;
}

std::string end_of(const ProcessResult& result) {
  if (result.timed_out) return "it did not end in time";
  return result.signal != 0 ? "it was killed by signal " + std::to_string(result.signal)
                            : "it exited with " + std::to_string(result.exit_code);
}

std::string absolute(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

std::string number_text(int number) {
  const std::string digits = std::to_string(number);
  return std::string(3 - std::min<std::size_t>(3, digits.size()), '0') + digits;
}

/// A run while it goes on.
class Run {
 public:
  Run(const RunPlan& plan, Progress& progress)
      : plan_(plan),
        progress_(progress),
        begin_ns_(monotonic_ns()),
        data_(absolute(plan.data)),
        record_path_(clear(plan.directory)),
        record_(RecordWriter::create(record_path_)) {
    Json header = Json::object({{"schema", record_schema_version},
                                {"version", MISFIRE_VERSION},
                                {"command", plan.command},
                                {"seed", plan.seed},
                                {"started", utc_now()},
                                {"replay", plan.replay}});
    if (plan.sabotage != "none") header.set("sabotage", plan.sabotage);
    if (!plan.judged) header.set("judged", false);
    header.set("failure", plan.failure.source);
    record_.write("run", std::move(header));
  }

  RunResult go() {
    RunResult result;
    if (capabilities_here()) {
      const std::vector<int> at = plan_.judged ? looks(plan_.failure) : std::vector<int>{plan_.blocks};
      executable_ = scenario_executable(plan_.failure.scenario);
      int blocks = 0;
      for (const int look : at) {
        total_ = static_cast<std::size_t>(look) * plan_.cells.size();
        while (blocks < look && !stop_requested()) block(blocks++);
        if (stop_requested() || !plan_.judged || !judge_run(read_run_record(record_path_), vocabulary()).needs_more_blocks) break;
      }
    }
    result.interrupted = stop_requested();
    return finish(result);
  }

 private:
  /// Removes what an earlier run left there, and nothing else. @return path of the record
  static std::string clear(const std::string& directory) {
    make_directories(directory);
    std::vector<fs::path> old;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("trial-") && (name.ends_with(".jsonl") || name.ends_with(".jsonl.raw"))) old.push_back(entry.path());
    }
    for (const fs::path& path : old) fs::remove(path);
    return directory + "/record.jsonl";
  }

  bool capabilities_here() {
    std::vector<std::string> missing, why;
    for (const std::string& need : plan_.failure.needs) {
      const Capability& found = capability(need);
      if (found.present) continue;
      missing.push_back(need);
      why.push_back(need + ": " + found.reason + (found.remedy.empty() ? "" : "; " + found.remedy));
    }
    if (missing.empty()) return true;
    record_.write("skipped",
                  Json::object({{"failure", plan_.failure.name}, {"capability", missing.front()}, {"why", join(why, "; ")}}));
    return false;
  }

  void block(int number) {
    const Seed seed(plan_.seed);
    std::vector<Cell> cells = plan_.cells;
    Stream order = seed.stream("order").substream(static_cast<std::uint64_t>(number));
    for (std::size_t i = cells.size(); i > 1; --i) std::swap(cells[i - 1], cells[order.below(i)]);
    const std::uint64_t trial_seed = seed.stream("block").at(static_cast<std::uint64_t>(number));
    for (const Cell& cell : cells) {
      if (stop_requested()) return;
      trial(cell, number, trial_seed);
    }
  }

  void trial(const Cell& cell, int block, std::uint64_t seed) {
    const Arm& arm = plan_.failure.arm(cell.arm);
    const std::string own = plan_.directory + "/trial-" + number_text(++count_) + ".jsonl";
    const Duration deadline = plan_.deadline > 0s           ? plan_.deadline
                              : plan_.failure.deadline > 0s ? plan_.failure.deadline
                                                            : default_deadline;
    std::vector<std::string> argv{executable_,
                                  "--failure",
                                  plan_.argument,
                                  "--arm",
                                  cell.arm,
                                  "--seed",
                                  std::to_string(seed),
                                  "--block",
                                  std::to_string(block),
                                  "--record",
                                  own,
                                  "--data",
                                  data_,
                                  "--deadline",
                                  std::to_string(deadline.count()) + "ns"};
    const auto also = [&](const char* flag, const std::string& value) {
      argv.emplace_back(flag);
      argv.push_back(value);
    };
    if (!cell.dose.empty()) also("--dose", cell.dose);
    const bool sabotaged = arm.role == Role::faulty && (plan_.sabotage == "condition" || plan_.sabotage == "misuse");
    if (sabotaged) also("--sabotage", plan_.sabotage);

    const std::string of = total_ > 0 ? "/" + std::to_string(total_) : "";
    progress_.begin("[" + std::to_string(count_) + of + "] " + plan_.failure.name + " " + cell.arm +
                        (cell.dose.empty() ? "" : " at " + cell.dose) + (sabotaged ? " without its " + plan_.sabotage : ""),
                    deadline);
    HostWatch host(plan_.directory);
    const ProcessResult process =
        run_process({.argv = argv, .environment = host.environment(), .timeout = deadline + beyond_deadline, .poll = [&] {
                       progress_.update();
                     }});
    const std::vector<std::string> left = host.clean();
    if (process.interrupted) {
      progress_.end("interrupted", Colour::yellow);
      return;
    }
    progress_.end(take(own, process, cell, block, seed, left));
  }

  /// Appends a trial's record to the run's, with what was seen from outside. @return how it ended, for people
  std::string take(const std::string& own, const ProcessResult& process, const Cell& cell, int block, std::uint64_t seed,
                   const std::vector<std::string>& left) {
    const bool failed = process.exit_code != 0 && process.exit_code != static_cast<int>(Exit::skipped);
    if (process.exit_code == static_cast<int>(Exit::usage))
      throw Error(ErrorCode::usage, "trial refused: " + last_words(process));
    std::string ending;
    bool begun = false, ended = false, torn = false;
    const auto append = [&](const Json& line) {
      const std::string& type = line.at("type").as_string();
      Json copy = line;
      begun = begun || type == "trial";
      if (type == "skipped") ending = "skipped: " + line.at("why").as_string();
      ended = ended || type == "skipped" || type == "outcome";
      if (type == "outcome") {
        ending = outcome_text(line);
        const Json* kind = line.find("kind");
        if (failed && !(kind && *kind == Json("error"))) {  // it came to grief after all, so that nothing it says counts
          ending += ", then " + end_of(process);
          copy.set("kind", "error");
          copy.set("what", ending);
        }
        if (!left.empty()) copy.set("leaks", leaks(left));
      }
      record_.write(type, std::move(copy));
    };
    if (fs::exists(own)) read_record_lines(own, append, &torn);
    if (ended) return ending + (left.empty() ? "" : "; left behind: " + join(left, ", "));

    // It died, or was ended, before it could say how: the record says so in its place.
    if (!begun)
      record_.write("trial", Json::object({{"failure", plan_.failure.name},
                                           {"arm", cell.arm},
                                           {"role", role_name(plan_.failure.arm(cell.arm).role)},
                                           {"dose", cell.dose},
                                           {"block", block},
                                           {"seed", seed}}));
    const std::string words = last_words(process);
    const std::string what = "the trial's record has no outcome: " + end_of(process) + (words.empty() ? "" : ": " + words);
    Json outcome = Json::object({{"kind", "error"}, {"what", what}});
    if (!left.empty()) outcome.set("leaks", leaks(left));
    record_.write("outcome", std::move(outcome));
    return "error: " + what;
  }

  static Json leaks(const std::vector<std::string>& left) {
    Json list = Json::array();
    for (const std::string& thing : left) list.push_back(thing);
    return list;
  }

  static std::string outcome_text(const Json& line) {
    const Json *kind = line.find("kind"), *failure = line.find("failure"), *signal = line.find("signal");
    std::string text = kind && kind->is_string() ? kind->as_string() : "?";
    if (failure && failure->is_string() && !failure->as_string().empty()) text += ", " + failure->as_string();
    if (signal && signal->is_integer() && signal->as_int() > 0) text += " " + std::to_string(signal->as_int());
    return text;
  }

  RunResult finish(RunResult result) {
    const RunRecord run = read_run_record(record_path_);
    result.trials = run.trials;
    result.record = record_path_;
    result.seconds = to_seconds(Duration(monotonic_ns() - begin_ns_));
    Json line;
    if (result.interrupted) {
      line = Json::object({{"verdict", "interrupted"}, {"reason", "interrupted"}, {"explanation", "stopped by a signal"}});
    } else if (plan_.judged) {
      result.verdict = judge_run(run, vocabulary());
      line = result.verdict.to_json();
    } else {
      result.verdict = unjudged(result.trials);
      return result;
    }
    line.set("seconds", result.seconds);
    record_.write("verdict", std::move(line));
    record_.sync();
    return result;
  }

  /// What can be said of trials without a comparison: whether they are trials at all.
  static Verdict unjudged(const std::vector<TrialRecord>& trials) {
    const auto said = [](VerdictKind kind, std::string reason, std::string explanation) {
      Verdict verdict;
      verdict.kind = kind;
      verdict.reason = std::move(reason);
      verdict.explanation = std::move(explanation);
      return verdict;
    };
    Verdict verdict = said(VerdictKind::reproduced, "not_judged", "one arm alone has no verdict");
    for (const TrialRecord& trial : trials) {
      const auto text = [&](std::string_view key) {
        const Json* value = trial.outcome.find(key);
        return value && value->is_string() ? value->as_string() : std::string();
      };
      const Json* left = trial.outcome.find("leaks");
      if (!trial.skipped.empty()) return said(VerdictKind::skipped, "capability_missing", trial.skipped);
      if (text("kind") == "error") return said(VerdictKind::error, "trial_error", text("what"));
      if (left && left->is_array() && !left->as_array().empty())
        verdict = said(VerdictKind::leak, "left_behind", "left behind: " + left->dump());
    }
    return verdict;
  }

  const RunPlan& plan_;
  Progress& progress_;
  std::int64_t begin_ns_;
  std::string data_;
  std::string record_path_;
  RecordWriter record_;
  std::string executable_;
  std::size_t total_ = 0;
  int count_ = 0;
};

bool reached_by_dose(const Failure& failure, const Arm& arm, const Json& dose) {
  const auto same = [](const TrialPlan& a, const TrialPlan& b) {
    return a.workload == b.workload && std::equal(a.injections.begin(), a.injections.end(), b.injections.begin(),
                                                  b.injections.end(), [](const auto& x, const auto& y) {
                                                    return x.armed == y.armed && (!x.armed || x.spec.options == y.spec.options);
                                                  });
  };
  return !same(compose(failure, arm, dose, Sabotage::none), compose(failure, arm, std::nullopt, Sabotage::none));
}

}  // namespace

std::vector<Cell> cells_of_arms(const Failure& failure, bool all, const std::string& dose) {
  std::vector<Cell> cells;
  for (const Arm& arm : failure.arms)
    if (all || (arm.role != Role::popular_advice && arm.role != Role::lookalike)) cells.push_back({arm.name, dose});
  return cells;
}

std::vector<Cell> control_and_faulty(const Failure& failure, const std::string& dose) {
  return {{failure.arm(Role::control).name, dose}, {failure.arm(Role::faulty).name, dose}};
}

std::vector<Cell> cells_of_sweep(const Failure& failure) {
  if (!failure.dose) throw Error(ErrorCode::usage, "'" + failure.name + "' has no dose to sweep over");
  const Arm& control = failure.arm(Role::control);
  std::vector<Cell> cells;
  bool shared = true;
  for (const Json& value : failure.dose->values) {
    cells.push_back({failure.arm(Role::faulty).name, dose_text(value)});
    shared = shared && !reached_by_dose(failure, control, value);
  }
  if (shared) {
    cells.push_back({control.name, ""});
  } else {
    for (const Json& value : failure.dose->values) cells.push_back({control.name, dose_text(value)});
  }
  return cells;
}

Failure with_blocks(const Failure& failure, int blocks, const Vocabulary& vocabulary) {
  if (failure.invariant)
    throw Error(ErrorCode::usage, "'" + failure.name + "' is an invariant: one block decides, leave --blocks out");
  Json source = failure.source;
  source.set("blocks", blocks);
  Failure changed = parse_failure(source, vocabulary);
  changed.path = failure.path;
  return changed;
}

RunResult run_failure(const RunPlan& plan, Progress& progress) { return Run(plan, progress).go(); }

Failure failure_of(const RunRecord& run, const Vocabulary& vocabulary) {
  if (!run.failure.is_object())
    throw Error(ErrorCode::invalid_input, "the record's 'run' line has no failure: it was not written by 'misfire reproduce'");
  return parse_failure(run.failure, vocabulary);
}

Verdict judge_run(const RunRecord& run, const Vocabulary& vocabulary) {
  const Failure failure = failure_of(run, vocabulary);
  const Json* sabotage = run.header.find("sabotage");
  const bool broken = sabotage && sabotage->is_string() && sabotage->as_string() == "signature";
  return broken ? judge(with_broken_signature(failure, vocabulary), run.trials) : judge(failure, run.trials);
}

std::string scenario_executable(std::string_view scenario) {
  const std::string path = sibling_executable("misfire-" + std::string(scenario));
  if (::access(path.c_str(), X_OK) != 0)
    throw Error(ErrorCode::not_found, "no executable '" + path + "' for the scenario '" + std::string(scenario) +
                                          "': build or install it beside misfire");
  return path;
}

void prepare_data(std::string_view scenario, const std::string& directory, Progress& progress) {
  const std::string parent = fs::path(absolute(directory)).parent_path().string();
  make_directories(parent);
  progress.begin("data in " + directory);
  const ProcessResult result =
      run_process({.argv = {scenario_executable(scenario), "--prepare", "--data", directory}, .timeout = 600s, .poll = [&] {
                     progress.update();
                   }});
  if (result.interrupted) return progress.end("interrupted", Colour::yellow);
  if (result.exit_code != 0) {
    progress.end("failed", Colour::red);
    const std::string words = last_words(result);
    throw Error(ErrorCode::io, "prepare data in '" + directory + "': " + (words.empty() ? end_of(result) : words));
  }
  const std::string said = split(result.out, '\n').front();  // "<directory>: what is there"
  const auto colon = said.find(": ");
  progress.end(colon == std::string::npos ? said : said.substr(colon + 2));
}

OutputDirectory::OutputDirectory(const std::string& given, const std::string& name) : own_(given.empty()) {
  path_ = given;
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  if (own_) {
    make_directories("misfire-out");
    std::string time = utc_now();
    std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
    const std::string wanted = "misfire-out/" + name + "-" + time;
    path_ = wanted;
    for (int i = 2; ::mkdir(path_.c_str(), 0777) != 0; ++i) {
      if (errno != EEXIST) throw system_error("make directory", path_, errno);
      path_ = wanted + "-" + std::to_string(i);
    }
  } else {
    make_directories(path_);
  }
  if (::access(path_.c_str(), W_OK | X_OK) != 0) throw system_error("write into", path_, errno);
  handle_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle_ >= 0 && ::flock(handle_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(handle_);
    throw Error(ErrorCode::usage, "another misfire is writing to '" + path_ + "': wait for it, or choose another place with -o");
  }
}

OutputDirectory::~OutputDirectory() {
  if (handle_ >= 0) ::close(handle_);
}

std::string OutputDirectory::data(const std::string& given) const {
  if (!given.empty()) return given;
  return own_ ? "misfire-out/data" : path_ + "/data";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace misfire::cli
