#pragma once

#include <string>

#include "harness/json.hpp"

namespace misfire {

/// What makes two records comparable: CPU, caches, NUMA, memory, cgroup limits and quota, kernel, libraries, GPU and driver if
/// any, the mounts behind `paths`, and how busy the machine is (load, steal, pressure-stall figures). Values that could not be
/// read are null, with the reason in "unreadable".
/// @param paths directories in use, whose file system is recorded
Json capture_environment(const std::vector<std::string>& paths = {});

/// Load, steal and pressure only: taken again at the end of a trial.
Json capture_load();

/// Short stable name of the hardware class, from CPU vendor, model, core count, memory and GPU: "intel-6-167-2c-24g".
/// Baselines are kept by it.
std::string hardware_class(const Json& environment);

}  // namespace misfire
