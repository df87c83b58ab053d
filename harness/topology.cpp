#include "harness/topology.hpp"

#include <hwloc.h>
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <type_traits>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/text.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace misfire {
namespace {

using Handle = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;

std::vector<int> members(hwloc_const_bitmap_t set) {
  std::vector<int> numbers;
  if (set == nullptr || hwloc_bitmap_weight(set) < 0) return numbers;  // infinite sets mean "whatever there is"
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) numbers.push_back(i);
  return numbers;
}

std::vector<int> common(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

/// @param choose tells hwloc what to read; false when it refuses (errno)
Topology read(const std::string& what, const std::function<bool(hwloc_topology_t)>& choose) {
#if defined(__SANITIZE_ADDRESS__)
  const __lsan::ScopedDisabler plugins_leak;  // libpciaccess, in a plugin that is unloaded afterwards
#endif
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw system_error("read the topology of", what, errno);
  const Handle topology(raw, &hwloc_topology_destroy);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // The PCI bus tells where GPUs are; these would load drivers and start threads, and we fork later.
  for (const char* component : {"cuda", "gl", "levelzero", "nvml", "opencl", "rsmi"})
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  if (!choose(raw) || hwloc_topology_load(raw) != 0)
    throw Error(ErrorCode::invalid_input, "read the topology of '" + what + "': it is no topology that hwloc understands");

  Topology result;
  for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_NUMANODE, node)) != nullptr;)
    result.nodes.push_back({static_cast<int>(node->os_index), members(node->cpuset), node->attr->numanode.local_memory});
  std::sort(result.nodes.begin(), result.nodes.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_CORE, core)) != nullptr;) {
    const int node = hwloc_bitmap_first(core->nodeset);
    result.cores.push_back({std::max(node, 0), members(core->cpuset)});
  }
  if (result.cores.empty())  // a machine that says nothing of cores: each CPU is one
    for (hwloc_obj_t cpu = nullptr; (cpu = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_PU, cpu)) != nullptr;)
      result.cores.push_back({std::max(hwloc_bitmap_first(cpu->nodeset), 0), {static_cast<int>(cpu->os_index)}});
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_pcidev(raw, device)) != nullptr;) {
    const auto& pci = device->attr->pcidev;
    if (pci.class_id >> 8 != 0x03) continue;
    std::array<char, 32> address{};
    std::snprintf(address.data(), address.size(), "%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.dev, pci.func);
    const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(raw, device);
    // Attached to a part of the machine with one node: near it. Attached to the whole of a larger machine: nobody knows.
    const int node = hwloc_bitmap_weight(place->nodeset) == 1 ? hwloc_bitmap_first(place->nodeset) : -1;
    result.gpus.push_back({device->name != nullptr ? device->name : "GPU", address.data(), node});
  }
  std::sort(result.gpus.begin(), result.gpus.end(), [](const auto& a, const auto& b) { return a.pci < b.pci; });
  result.allowed_cpus = members(hwloc_topology_get_allowed_cpuset(raw));
  result.allowed_nodes = members(hwloc_topology_get_allowed_nodeset(raw));
  if (result.nodes.empty() || result.allowed_cpus.empty())
    throw Error(ErrorCode::invalid_input, "read the topology of '" + what + "': it names no CPUs or no memory");
  return result;
}

void narrow(std::vector<int>& allowed, const std::vector<int>& to) {
  if (std::vector<int> both = common(allowed, to); !both.empty()) allowed = std::move(both);
}

}  // namespace

Topology Topology::of_this_machine() {
  Topology topology = read("this machine", [](hwloc_topology_t) { return true; });
  narrow(topology.allowed_cpus, affinity_mask());
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    constexpr std::string_view key = "Mems_allowed_list:\t";
    if (line.starts_with(key)) narrow(topology.allowed_nodes, parse_cpu_list(std::string_view(line).substr(key.size())));
  }
  return topology;
}

Topology Topology::from_xml(const std::string& path) {
  const std::string text = read_whole_file(path);
  return read(path, [&](hwloc_topology_t topology) {
    return hwloc_topology_set_xmlbuffer(topology, text.c_str(), static_cast<int>(text.size() + 1)) == 0;
  });
}

Topology Topology::from_sysfs(const std::string& root) {
  struct stat status {};
  const std::string cpus = root + "/sys/devices/system/cpu";
  if (::stat(cpus.c_str(), &status) != 0) throw system_error("read the topology of", cpus, errno);
  // hwloc takes another root from its environment only; HWLOC_COMPONENTS keeps it from asking this machine's CPU and PCI bus.
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  ::setenv("HWLOC_FSROOT", root.c_str(), 1);
  ::setenv("HWLOC_COMPONENTS", "linux,-pci,stop", 1);
  struct Restore {
    ~Restore() {
      ::unsetenv("HWLOC_FSROOT");
      ::unsetenv("HWLOC_COMPONENTS");
    }
  } const restore;
  return read(root, [](hwloc_topology_t) { return true; });
}

std::vector<int> cpus_for_worker(const Topology& topology, const PlacementRequest& request, int worker) {
  MISFIRE_ASSERT(worker >= 0);
  const auto index = static_cast<std::size_t>(worker);
  switch (request.placement) {
    case Placement::none:
      return {};
    case Placement::listed: {
      if (request.cpus.empty()) throw Error(ErrorCode::invalid_input, "place workers on listed CPUs: the list is empty");
      const int cpu = request.cpus[index % request.cpus.size()];
      if (!std::binary_search(topology.allowed_cpus.begin(), topology.allowed_cpus.end(), cpu))
        throw Error(ErrorCode::invalid_input, "place worker " + std::to_string(worker) + " on CPU " + std::to_string(cpu) +
                                                  ": this process may use only " + cpu_list_text(topology.allowed_cpus));
      return {cpu};
    }
    case Placement::per_node:
      break;
  }
  if (request.gpu >= static_cast<int>(topology.gpus.size()))
    throw Error(ErrorCode::invalid_input, "place workers near GPU " + std::to_string(request.gpu) + ": this machine has " +
                                              std::to_string(topology.gpus.size()) + " GPUs");
  std::vector<std::vector<int>> usable;  // CPUs of each node that has any for us
  for (const Topology::Node& node : topology.nodes) {
    std::vector<int> cpus = common(node.cpus, topology.allowed_cpus);
    if (cpus.empty()) continue;
    if (request.gpu >= 0 && topology.gpus[static_cast<std::size_t>(request.gpu)].node == node.id) return cpus;
    usable.push_back(std::move(cpus));
  }
  // No GPU, or one whose node is unknown or closed to us: it serves no node better than another.
  return usable.empty() ? topology.allowed_cpus : usable[index % usable.size()];
}

std::vector<int> nodes_of(const Topology& topology, const std::vector<int>& cpus) {
  std::set<int> nodes;
  for (const Topology::Node& node : topology.nodes)
    for (int cpu : cpus)
      if (std::binary_search(node.cpus.begin(), node.cpus.end(), cpu)) nodes.insert(node.id);
  return {nodes.begin(), nodes.end()};
}

std::vector<int> sharing_a_core(const Topology& topology, const std::vector<int>& cpus) {
  std::map<int, std::size_t> core_of;
  for (std::size_t i = 0; i < topology.cores.size(); ++i)
    for (int cpu : topology.cores[i].cpus) core_of[cpu] = i;
  std::set<std::size_t> taken;
  std::vector<int> sharing;
  for (int cpu : cpus)
    if (const auto core = core_of.find(cpu); core != core_of.end() && !taken.insert(core->second).second) sharing.push_back(cpu);
  return sharing;
}

std::vector<int> affinity_mask() {
  for (int capacity = 1024; capacity <= 1 << 18; capacity *= 2) {  // the kernel refuses a set smaller than its own
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(capacity), [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t size = CPU_ALLOC_SIZE(capacity);
    if (sched_getaffinity(0, size, set.get()) != 0) continue;
    std::vector<int> cpus;
    for (int i = 0; i < capacity; ++i)
      if (CPU_ISSET_S(i, size, set.get())) cpus.push_back(i);
    return cpus;
  }
  return {};
}

std::vector<int> parse_cpu_list(std::string_view text) {
  constexpr int highest = 1 << 18;
  const std::string original(text);
  const auto refuse = [&](const std::string& what) -> Error {
    return Error(ErrorCode::invalid_input, "'" + original + "' is not a list of CPUs: " + what + "; write for example 0-3,8");
  };
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::set<int> numbers;
  for (const std::string& part : split(text, ',')) {
    const auto number = [&](std::string_view digits) {
      int value = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (error != std::errc() || end != digits.data() + digits.size() || value < 0 || value > highest)
        throw refuse("'" + std::string(digits) + "' is no CPU number");
      return value;
    };
    const std::size_t dash = part.find('-');
    const int first = number(std::string_view(part).substr(0, dash));
    const int last = dash == std::string::npos ? first : number(std::string_view(part).substr(dash + 1));
    if (last < first) throw refuse("'" + part + "' descends");
    for (int i = first; i <= last; ++i) numbers.insert(i);
  }
  return {numbers.begin(), numbers.end()};
}

std::string cpu_list_text(const std::vector<int>& cpus) {
  const std::set<int> sorted(cpus.begin(), cpus.end());
  std::string text;
  for (auto it = sorted.begin(); it != sorted.end();) {
    const int first = *it;
    int last = first;
    while (++it != sorted.end() && *it == last + 1) last = *it;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last > first) text += '-' + std::to_string(last);
  }
  return text;
}

}  // namespace misfire
