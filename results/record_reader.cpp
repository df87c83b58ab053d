// Records are JSON Lines; their lines are described in results/schema.md. A record may end anywhere (its writer may have been
// killed): a torn last line is told, not refused, and a trial without its outcome is incomplete. Everything else that is not as
// described is refused with file and line.

#include "results/record_reader.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/record.hpp"
#include "harness/text.hpp"

namespace misfire {
namespace {

constexpr std::size_t longest_line = 16U << 20;

[[noreturn]] void refuse(const std::string& at, const std::string& what) { throw Error(ErrorCode::invalid_input, at + what); }

void check_version(const Json& line, bool required) {
  const Json* version = line.find("schema");
  if (version == nullptr) {
    if (required) refuse(line.where(), "the header has no schema version");
    return;
  }
  const std::int64_t number = version->as_int();
  if (number > record_schema_version)
    refuse(line.where(), "record schema " + std::to_string(number) + " is newer than this Misfire reads (" +
                             std::to_string(record_schema_version) + "): update Misfire");
  if (number < 1) refuse(line.where(), "there is no record schema " + std::to_string(number));
}

std::string text_or_empty(const Json& line, std::string_view key) {
  const Json* value = line.find(key);
  return value == nullptr || value->is_null() ? "" : value->as_string();
}

template <class T, std::size_t n>
T named(const Json& line, std::string_view key, const std::array<T, n>& all, std::string_view (*name)(T) noexcept) {
  const std::string& word = line.at(key).as_string();
  std::vector<std::string_view> names;
  for (T candidate : all) {
    if (name(candidate) == word) return candidate;
    names.push_back(name(candidate));
  }
  refuse(line.where(), "unknown " + std::string(key) + " '" + word + "'" + did_you_mean(word, names));
}

Unit unit_of(const Json& line) {
  constexpr std::array all = {Unit::none,
                              Unit::text,
                              Unit::count,
                              Unit::bytes,
                              Unit::seconds,
                              Unit::fraction,
                              Unit::ratio,
                              Unit::bytes_per_second,
                              Unit::images_per_second};
  return named(line, "unit", all, &unit_name);
}

/// A line without its type.
Json body(const Json& line) {
  Json copy = line;
  std::erase_if(copy.as_object(), [](const Json::Member& member) { return member.first == "type"; });
  return copy;
}

/// Collects the lines of trials, one after the other.
class Trials {
 public:
  explicit Trials(std::vector<TrialRecord>& trials) : trials_(trials) {}

  /// @return false when the line is none of a trial's
  bool take(std::string_view type, const Json& line) {
    if (type == "trial") return begin(line);
    if (type == "skipped") return skipped(line);
    constexpr std::string_view of_a_trial[] = {"environment", "options", "lane",    "injection",
                                               "note",        "metric",  "missing", "outcome"};
    if (std::find(std::begin(of_a_trial), std::end(of_a_trial), type) == std::end(of_a_trial)) return false;
    if (!inside_) refuse(line.where(), "a line of type '" + std::string(type) + "' outside a trial");
    TrialRecord& trial = trials_.back();
    if (type == "environment") trial.environment = line.at("environment");
    if (type == "options") trial.options = line.at("options");
    if (type == "injection")
      trial.injections.push_back(
          {line.at("fault").as_string(), line.at("armed").as_bool(), line.at("proved").as_bool(), body(line)});
    if (type == "metric") metric(trial, line);
    if (type == "missing") trial.missing.emplace_back(line.at("name").as_string(), line.at("why").as_string());
    if (type == "outcome") {
      line.at("kind").as_string();
      trial.outcome = body(line);
      trial.complete = true;
      inside_ = false;
    }
    return true;
  }

 private:
  bool begin(const Json& line) {
    check_version(line, false);
    TrialRecord trial;
    trial.failure = text_or_empty(line, "failure");
    trial.arm = text_or_empty(line, "arm");  // a healthy case has none
    trial.dose = text_or_empty(line, "dose");
    if (line.find("role") != nullptr) trial.role = named(line, "role", all_roles, &role_name);
    if (line.find("sabotage") != nullptr) trial.sabotage = named(line, "sabotage", all_sabotages, &sabotage_name);
    if (const Json* block = line.find("block")) {  // a trial that was skipped may lack these
      const std::int64_t number = block->as_int();
      if (number < 0 || number > 1'000'000) refuse(line.where(), "block " + std::to_string(number) + " is out of range");
      trial.block = static_cast<int>(number);
    }
    if (const Json* seed = line.find("seed")) trial.seed = seed->as_uint();
    if (const Json* condition = line.find("has_condition")) trial.has_condition = condition->as_bool();
    if (const Json* misuse = line.find("has_misuse")) trial.has_misuse = misuse->as_bool();
    trial.replay = text_or_empty(line, "replay");
    trials_.push_back(std::move(trial));
    inside_ = true;
    return true;
  }

  bool skipped(const Json& line) {
    if (!inside_) {  // skipped before it began
      TrialRecord trial;
      trial.failure = text_or_empty(line, "failure");
      trial.arm = text_or_empty(line, "arm");
      if (line.find("role") != nullptr) trial.role = named(line, "role", all_roles, &role_name);
      trials_.push_back(std::move(trial));
    }
    const std::string capability = text_or_empty(line, "capability"), why = line.at("why").as_string();
    trials_.back().skipped = capability.empty() || why.starts_with(capability) ? why : capability + ": " + why;
    inside_ = false;
    return true;
  }

  static void metric(TrialRecord& trial, const Json& line) {
    Metric metric{line.at("name").as_string(), unit_of(line), 0.0};
    if (trial.metric(metric.name) != nullptr) refuse(line.where(), "the metric '" + metric.name + "' appears twice in one trial");
    const Json& value = line.at("value");
    if (value.is_null()) {  // how NaN and infinity are written
      trial.missing.emplace_back(metric.name, "it was not a finite number");
      return;
    }
    if (metric.unit == Unit::text) {
      metric.value = value.as_string();
    } else {
      metric.value = value.as_double();
    }
    trial.metrics.push_back(std::move(metric));
  }

  std::vector<TrialRecord>& trials_;
  bool inside_ = false;
};

[[noreturn]] void unknown_type(const Json& line, std::string_view type) {
  constexpr std::string_view all[] = {"run",  "trial",  "environment", "options", "lane",    "injection",
                                      "note", "metric", "missing",     "outcome", "skipped", "verdict"};
  refuse(line.where(), "unknown line type '" + std::string(type) + "'" + did_you_mean(type, all));
}

}  // namespace

const Metric* TrialRecord::metric(std::string_view name) const noexcept {
  for (const Metric& metric : metrics)
    if (metric.name == name) return &metric;
  return nullptr;
}

std::string TrialRecord::why_missing(std::string_view name) const {
  if (!skipped.empty()) return "the trial was skipped: " + skipped;
  for (const auto& [metric, why] : missing)
    if (metric == name) return why;
  return complete ? "the record does not have it" : "the record was cut";
}

void read_record_lines(const std::string& path, const std::function<void(const Json&)>& line, bool* torn) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw system_error("open", path, errno);
  if (torn != nullptr) *torn = false;
  std::string text;
  int number = 0;
  for (;;) {
    text.clear();
    // By character, with a bound: a file that is no record at all must not fill the memory.
    int c = 0;
    std::streambuf& buffer = *stream.rdbuf();
    while ((c = buffer.sbumpc()) != std::char_traits<char>::eof() && c != '\n' && text.size() < longest_line)
      text.push_back(static_cast<char>(c));
    const bool ended = c == '\n';
    if (!ended && text.empty()) return;
    ++number;
    const std::string at = path + ":" + std::to_string(number) + ": ";
    if (!ended && text.size() >= longest_line) refuse(at, "the line is longer than 16 MiB: this is no record");
    Json value;
    try {
      value = Json::parse(text, path);
    } catch (const Error& error) {
      if (!ended) {  // the writer was killed in the middle of a line
        if (torn != nullptr) *torn = true;
        return;
      }
      std::string what = error.what();
      if (what.starts_with(path + ":1: ")) what.erase(0, path.size() + 4);
      refuse(at, what);
    }
    try {
      if (!value.is_object()) refuse(path + ":1: ", "a line of a record is an object, not " + std::string(value.type_name()));
      value.at("type").as_string();
      line(value);
    } catch (const Error& error) {  // every line was parsed as a text of one line
      std::string what = error.what();
      if (!what.starts_with(path + ":1: ")) throw;
      throw Error(error.code(), at + what.substr(path.size() + 4));
    }
  }
}

RunRecord read_run_record(const std::string& path) {
  RunRecord run;
  Trials trials(run.trials);
  bool first = true;
  read_record_lines(path, [&](const Json& line) {
    const std::string& type = line.at("type").as_string();
    if (first != (type == "run"))
      refuse(line.where(), first ? "a run's record begins with its 'run' line, not '" + type + "'" : "a second 'run' line");
    if (first) {
      check_version(line, true);
      run.header = body(line);
      if (const Json* failure = line.find("failure")) run.failure = *failure;
    } else if (type == "verdict") {
      run.verdict = body(line);
    } else if (!trials.take(type, line)) {
      unknown_type(line, type);
    }
    first = false;
  });
  if (first) refuse(path + ":1: ", "the record is empty");
  return run;
}

std::vector<TrialRecord> read_trial_records(const std::string& path) {
  std::vector<TrialRecord> records;
  Trials trials(records);
  read_record_lines(path, [&](const Json& line) {
    const std::string& type = line.at("type").as_string();
    if (type != "run" && type != "verdict" && !trials.take(type, line)) unknown_type(line, type);
  });
  return records;
}

}  // namespace misfire
