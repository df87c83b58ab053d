#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace misfire {

/// Something a failure needs and a machine may lack. Probed by trying the operation, lazily, once per process.
struct Capability {
  std::string_view name;  ///< "userns", "gpu", "cuda_toolkit", "root", "fuse", "two_cpus", "two_numa_nodes", "memory_cgroup",
                          ///< "mpi", "fio", "perf_event", "photographs"
  bool present = false;
  std::string reason;        ///< what was tried and what came back; never empty
  std::string remedy;        ///< how to get it: package, sysctl, AppArmor profile, securityContext; empty when present
  std::string_view unlocks;  ///< what it is for
};

std::vector<std::string_view> capability_names();
/// @throws Error{usage} for an unknown name, with the nearest
const Capability& capability(std::string_view name);
/// The same, tried again now. @throws Error{usage}
Capability probe_capability(std::string_view name);

}  // namespace misfire
