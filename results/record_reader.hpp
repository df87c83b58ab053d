#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/failure.hpp"
#include "harness/json.hpp"
#include "harness/metric.hpp"

namespace misfire {

/// One trial as read from a record.
struct TrialRecord {
  std::string failure, arm, dose;  ///< dose empty: the file's own
  Role role = Role::control;
  Sabotage sabotage = Sabotage::none;
  int block = 0;
  std::uint64_t seed = 0;
  std::vector<Metric> metrics;
  std::vector<std::pair<std::string, std::string>> missing;  ///< metric and why
  struct InjectionRecord {
    std::string fault;
    bool armed = false, proved = false;
    Json json;  ///< the whole line
  };
  std::vector<InjectionRecord> injections;
  bool has_condition = false, has_misuse = false;
  Json environment, options, outcome;
  bool complete = false;  ///< an outcome line was present: the record was not cut
  std::string skipped;    ///< reason, when the trial was skipped
  std::string replay;     ///< command that runs this trial again

  const Metric* metric(std::string_view name) const noexcept;
  std::string why_missing(std::string_view name) const;
};

/// One run of `misfire reproduce`: its header, its trials, and the verdict line if one was written.
struct RunRecord {
  Json header;   ///< "run" line: schema, version, command, seed, failure file embedded
  Json failure;  ///< the embedded failure file
  std::vector<TrialRecord> trials;
  Json verdict;  ///< null when absent
};

/// Calls `line` for each line of a record, in order, holding one line in memory at a time.
/// A torn last line is reported to `torn`, not an error. @throws Error{invalid_input} path:line for bad JSON, a wrong or newer
/// schema
void read_record_lines(const std::string& path, const std::function<void(const Json&)>& line, bool* torn = nullptr);
/// A whole run record. @throws Error
RunRecord read_run_record(const std::string& path);
/// The trials in a single trial's record file.
std::vector<TrialRecord> read_trial_records(const std::string& path);

}  // namespace misfire
