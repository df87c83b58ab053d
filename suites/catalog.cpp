#include "suites/catalog.hpp"

#include <string>
#include <vector>

#include "faults/catalog.hpp"
#include "harness/capability.hpp"
#include "harness/text.hpp"

namespace misfire {

#define MISFIRE_SCENARIO(name) \
  namespace name {             \
  const Scenario& scenario();  \
  }
#include "suites/catalog.inc"
#undef MISFIRE_SCENARIO

std::span<const Scenario* const> scenarios() {
  static const Scenario* const list[] = {
#define MISFIRE_SCENARIO(name) &name::scenario(),
#include "suites/catalog.inc"
#undef MISFIRE_SCENARIO
  };
  return list;
}

const Scenario& scenario(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Scenario* known : scenarios()) {
    if (known->name == name) return *known;
    names.push_back(known->name);
  }
  throw Error(ErrorCode::not_found, "no scenario is named '" + std::string(name) + "'" + did_you_mean(name, names));
}

const Vocabulary& vocabulary() {
  static const Vocabulary words = [] {
    Vocabulary result;
    for (const Scenario* known : scenarios()) {
      const Scenario& entry = *known;
      result.scenarios.push_back(
          {entry.name, entry.workloads, entry.metrics,
           [&entry](std::string_view workload, const Json& options) { entry.make_workload(workload)->options().set(options); }});
    }
    const auto faults = fault_catalog();
    result.faults.assign(faults.begin(), faults.end());
    result.capabilities = capability_names();
    return result;
  }();
  return words;
}

}  // namespace misfire
