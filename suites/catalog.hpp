#pragma once

#include <span>
#include <string_view>

#include "harness/failure.hpp"
#include "harness/trial.hpp"

namespace misfire {

/// Every scenario of suites/catalog.inc.
std::span<const Scenario* const> scenarios();
/// @throws Error{not_found} with the nearest name
const Scenario& scenario(std::string_view name);

/// The names that a failure file may use: scenarios with their workloads and metrics, faults, capabilities.
const Vocabulary& vocabulary();

}  // namespace misfire
