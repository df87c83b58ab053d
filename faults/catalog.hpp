#pragma once

#include <span>

#include "harness/fault.hpp"

namespace misfire {

/// Every fault of faults/catalog.inc.
std::span<const FaultEntry> fault_catalog();

}  // namespace misfire
