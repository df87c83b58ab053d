#pragma once

#include <functional>
#include <span>
#include <string>

#include "harness/containment.hpp"
#include "harness/record.hpp"
#include "harness/trial.hpp"

namespace misfire {

/// What the witness needs to know of its trial.
struct WitnessSetup {
  const Scenario& scenario;
  std::span<const FaultEntry> faults;
  const TrialPlan& plan;
  const TrialOptions& options;
  Workload& workload;  ///< options set
  Json header;         ///< members of the "trial" line that are known before
  Json environment;
  Duration deadline;
  int raw_descriptor = -1;  ///< empty file for the raw events, -1: none wanted
};

/// Starts the subject, watches it to its end or the deadline, and writes the record. Runs as the first process of the
/// containment.
/// @return exit code of the trial
int run_witness(const WitnessSetup& setup, const Contained& contained, RecordWriter& record);

}  // namespace misfire
