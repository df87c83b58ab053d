#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/trial.hpp"

namespace misfire {

/// A mapping to look for in every process's memory map.
struct WatchedRegion {
  std::string name;
  std::uint64_t address = 0, bytes = 0;
};

/// Every process below `root` (not root itself) as /proc shows it now. A process that goes while it is read is left out.
/// @param regions  with `memory`: mappings to report for each process
/// @param memory   also read memory use and maps (costs about a millisecond a process)
std::vector<ProcessSnapshot> snapshot_descendants(int root, bool memory, const std::vector<WatchedRegion>& regions);

/// Ids of every process below `root`, children before grandchildren.
std::vector<int> descendants(int root);

}  // namespace misfire
