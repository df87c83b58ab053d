#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace misfire {

/// CPUs, memory nodes and GPUs of a machine, and what this process may use of them. Read through hwloc, from the machine or
/// from a fixture, so that decisions about placement are tested where there is one node only. Numbers are the kernel's (as in
/// /proc and taskset), lists ascend.
struct Topology {
  struct Node {
    int id = 0;
    std::vector<int> cpus;  ///< may be empty: memory without CPUs
    std::uint64_t memory_bytes = 0;
  };
  struct Core {
    int node = 0;           ///< memory node that it is local to
    std::vector<int> cpus;  ///< its hyperthreads
  };
  struct Gpu {
    std::string name;  ///< model as the PCI data says, else "GPU"
    std::string pci;   ///< "0000:1b:00.0"
    int node = -1;     ///< nearest memory node, -1 when the machine does not say
  };
  std::vector<Node> nodes;  ///< by id; at least one
  std::vector<Core> cores;
  std::vector<Gpu> gpus;           ///< PCI devices of display class (0x03), by address
  std::vector<int> allowed_cpus;   ///< affinity mask and cpuset
  std::vector<int> allowed_nodes;  ///< memory nodes of the cpuset

  /// This machine, and what this process may use of it now. Takes milliseconds: keep it. @throws Error{unsupported}
  static Topology of_this_machine();
  /// A file of `lstopo file.xml` or a fixture. @throws Error{not_found, permission, invalid_input}
  static Topology from_xml(const std::string& path);
  /// A tree that holds the sys/ and proc/ of another machine. @throws Error{not_found, invalid_input}
  static Topology from_sysfs(const std::string& root);
};

/// Where worker processes are put.
enum class Placement {
  none,      ///< wherever the scheduler puts them
  listed,    ///< worker i on the i-th of the listed CPUs, again from the first when they are used up
  per_node,  ///< worker i on all the CPUs of a node: that of the GPU it serves, else nodes in turn
};

struct PlacementRequest {
  Placement placement = Placement::none;
  std::vector<int> cpus = {};  ///< for `listed`
  int gpu = -1;                ///< for `per_node`: index of the GPU that the workers serve, -1 for none
};

/// CPUs that worker `worker` is to be bound to, among the allowed ones. Empty: leave it as it is.
/// @throws Error{invalid_input} for an empty list, a CPU that this process may not use (said with the ones it may), or a GPU
///         that is not there
std::vector<int> cpus_for_worker(const Topology& topology, const PlacementRequest& request, int worker);

/// Memory nodes that these CPUs are local to.
std::vector<int> nodes_of(const Topology& topology, const std::vector<int>& cpus);

/// CPUs of the list that share a core with an earlier one of it (hyperthreads): two workers there get less than two cores.
std::vector<int> sharing_a_core(const Topology& topology, const std::vector<int>& cpus);

/// CPUs that the calling thread may run on (taskset, cpuset).
std::vector<int> affinity_mask();

/// "0-3,8" to {0,1,2,3,8}, as in /proc, cpusets and taskset. @throws Error{invalid_input} naming what is wrong
std::vector<int> parse_cpu_list(std::string_view text);
/// {0,1,2,3,8} to "0-3,8".
std::string cpu_list_text(const std::vector<int>& cpus);

}  // namespace misfire
