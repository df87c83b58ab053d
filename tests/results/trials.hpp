#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harness/failure.hpp"
#include "results/record_reader.hpp"
#include "tests/harness/vocabulary.hpp"

namespace misfire::test {

/// An invariant: SIGBUS with a full /dev/shm. Recovery by outcome.
inline Failure invariant_failure() { return read_failure(example_path(), vocabulary()); }

/// A failure of degree: a slow step, judged by its ratio to the control over five blocks.
inline constexpr const char* slow_step = R"({
  "schema": 1, "name": "slow-step", "scenario": "dataloader", "summary": "Steps are slow.", "cause": "c", "remedy": "r",
  "owner": "job", "action": "a", "workload": {"name": "loading"}, "blocks": 5, "deadline": "5s",
  "condition": {"workload": {"read_delay": "1ms"}, "evidence": [{"metric": "worker_processes", "at_least": 1}]},
  "misuse": {"workload": {"num_workers": 0}, "evidence": [{"metric": "shm_total_bytes", "at_most": "1MiB"}]},
  "arms": {
    "control": {"role": "control"}, "faulty": {"role": "faulty"}, "remedied": {"role": "remedied"},
    "deeper": {"role": "popular_advice", "expect": "present", "workload": {"prefetch_factor": 8}},
    "other": {"role": "lookalike", "expect": "absent", "workload": {"prefetch_factor": 1}}
  },
  "dose": {"key": "read_delay", "values": ["0ms", "1ms", "4ms"], "neutral": "0ms", "metric": "step_seconds",
    "effect": "increasing", "onset": "1ms", "formula": "any delay"},
  "signature": [
    {"metric": "step_seconds", "ratio_to_control": {"at_least": 1.5}},
    {"metric": "remote_page_fraction", "at_least": 0.5, "optional": true}
  ],
  "recovery": {"metric": "step_seconds", "fraction": 0.8}
})";
inline Failure slow_step_failure() { return parse_failure(Json::parse(slow_step, "slow-step.json"), vocabulary()); }

using Named = std::vector<std::pair<std::string, Json>>;

inline Unit unit_of(const std::string& name) {
  for (const MetricInfo& info : metrics)
    if (info.name == name) return info.unit;
  return Unit::none;
}

/// A whole trial of an arm, with the injections that its plan has, proved.
inline TrialRecord trial(const Failure& failure, const std::string& arm, int block, const Named& values,
                         const std::string& dose = "") {
  TrialRecord record;
  const Arm& of = failure.arm(arm);
  const TrialPlan plan =
      compose(failure, of, dose.empty() ? std::nullopt : std::optional(read_dose(failure, dose)), Sabotage::none);
  record.failure = failure.name;
  record.arm = arm;
  record.role = of.role;
  record.dose = dose;
  record.block = block;
  record.has_condition = plan.has_condition;
  record.has_misuse = plan.has_misuse;
  for (const auto& injection : plan.injections)
    record.injections.push_back({injection.spec.fault, injection.armed, true, Json::object()});
  for (const auto& [name, value] : values) {
    Metric metric{name, unit_of(name), 0.0};
    if (value.is_string()) {
      metric.value = value.as_string();
    } else {
      metric.value = value.as_double();
    }
    record.metrics.push_back(std::move(metric));
  }
  record.outcome = Json::object({{"kind", "ok"}});
  record.complete = true;
  record.replay = "misfire-dataloader --failure " + failure.name + " --arm " + arm;
  return record;
}

/// The three arms of the invariant, as they should be.
inline std::vector<TrialRecord> invariant_trials(const Failure& failure) {
  const double mib = 1 << 20;
  return {
      trial(failure, "control", 0,
            {{"outcome", "ok"}, {"worker_signal", 0}, {"shm_used_fraction", 0.1}, {"shm_total_bytes", 4096 * mib}}),
      trial(failure, "faulty", 0,
            {{"outcome", "failed"}, {"worker_signal", 7}, {"shm_used_fraction", 1}, {"shm_total_bytes", 18 * mib}}),
      trial(failure, "remedied", 0,
            {{"outcome", "ok"}, {"worker_signal", 0}, {"shm_used_fraction", 0.5}, {"shm_total_bytes", 18 * mib}}),
  };
}

/// Blocks of the slow step: seconds of each arm, times a drift that the blocks have in common.
struct SlowStep {
  double control = 1, faulty = 2, remedied = 1.05, deeper = 0, other = 0;  ///< 0: the arm was not run
};
inline void add_block(std::vector<TrialRecord>& trials, const Failure& failure, int block, const SlowStep& seconds) {
  const double drift = 1 + 0.1 * (block % 3), mib = 1 << 20;
  const auto add = [&](const char* arm, double value, double shm) {
    if (value > 0)
      trials.push_back(trial(failure, arm, block,
                             {{"step_seconds", value * drift},
                              {"worker_processes", 2},
                              {"shm_total_bytes", shm},
                              {"remote_page_fraction", value >= 1.5 * seconds.control ? 0.9 : 0.1}}));
  };
  add("control", seconds.control, 4 * mib);
  add("faulty", seconds.faulty, mib);
  add("remedied", seconds.remedied, 4 * mib);
  add("deeper", seconds.deeper, mib);
  add("other", seconds.other, 4 * mib);
}
inline std::vector<TrialRecord> slow_step_trials(const Failure& failure, int blocks, const SlowStep& seconds = {}) {
  std::vector<TrialRecord> trials;
  for (int block = 0; block < blocks; ++block) add_block(trials, failure, block, seconds);
  return trials;
}

inline TrialRecord& of_arm(std::vector<TrialRecord>& trials, const std::string& arm, int block = 0) {
  return *std::find_if(trials.begin(), trials.end(),
                       [&](const TrialRecord& trial) { return trial.arm == arm && trial.block == block; });
}

inline void set_metric(TrialRecord& trial, const std::string& name, std::variant<double, std::string> value) {
  for (Metric& metric : trial.metrics)
    if (metric.name == name) metric.value = std::move(value);
}
inline void lose_metric(TrialRecord& trial, const std::string& name, const std::string& why) {
  std::erase_if(trial.metrics, [&](const Metric& metric) { return metric.name == name; });
  trial.missing.emplace_back(name, why);
}

}  // namespace misfire::test
