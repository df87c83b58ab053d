#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace misfire {

/// The control group that this process is in, for one controller ("memory", "cpu"), as a directory of the mounted hierarchy.
struct ControlGroup {
  int version = 2;        ///< 1: the controller has a hierarchy of its own; 2: the unified one
  std::string directory;  ///< "/sys/fs/cgroup/user.slice/..."
  std::string mount;      ///< where the hierarchy is mounted: `directory` or above it
};

/// Where that controller can be found, or nothing when no hierarchy with it is mounted.
/// @param proc  where the two files of this process are read: "/proc/self", or a fixture
std::optional<ControlGroup> control_group(std::string_view controller, const std::string& proc = "/proc/self");

/// CPUs that the quotas of the group and of the groups above it leave: 1.5 is one and a half. Nothing without a quota.
std::optional<double> cpu_quota(const std::optional<ControlGroup>& group);
/// The smallest memory limit of the group and of the groups above it, in bytes. Nothing without a limit.
std::optional<std::uint64_t> memory_limit(const std::optional<ControlGroup>& group);
/// Processes of the group that the kernel's OOM killer has ended so far. Nothing where that is not counted.
std::optional<std::uint64_t> oom_kills(const std::optional<ControlGroup>& group);

}  // namespace misfire
