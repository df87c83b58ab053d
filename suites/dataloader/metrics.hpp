#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/metric.hpp"
#include "harness/trial.hpp"

namespace misfire::dataloader {

/// Every metric of the scenario, with unit and meaning. Each trial records all of them, so that any signature can be
/// evaluated on any trial (the confusion matrix).
std::span<const MetricInfo> metrics();

/// Computes the metrics from a trace alone: recorded events, and what the witness saw in /proc. Options are not read, so that no
/// metric can echo what was asked for.
/// @param missing what could not be measured, with the reason
std::vector<Metric> analyse(const Trace& trace, std::vector<std::pair<std::string, std::string>>& missing);

}  // namespace misfire::dataloader
