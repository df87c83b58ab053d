// Goal: nodes, cores and GPUs are read right, and workers placed right, on machines that we do not have.
// Method: a description of a host with two nodes and eight GPUs; a tree of sysfs files of a smaller one; this machine.
#include "harness/topology.hpp"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "tests/check.hpp"

using namespace misfire;

namespace {

Topology eight_gpus() { return Topology::from_xml(shipped_file("tests/harness/fixtures/two-nodes-eight-gpus.xml")); }

std::vector<int> range(int first, int last) {
  std::vector<int> numbers;
  for (int i = first; i <= last; ++i) numbers.push_back(i);
  return numbers;
}
std::vector<int> together(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void put(const std::string& path, std::string_view content) {
  make_directories(std::filesystem::path(path).parent_path().string());
  std::ofstream(path) << content;
}

// Two nodes of two cores each, and a GPU on node 1, as Linux shows them in /sys.
void make_sysfs(const std::string& root) {
  const std::string system = root + "/sys/devices/system";
  put(root + "/proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n\nprocessor\t: 2\n\nprocessor\t: 3\n\n");
  put(root + "/proc/mounts", "");
  put(system + "/cpu/online", "0-3\n");
  put(system + "/cpu/possible", "0-3\n");
  put(system + "/cpu/present", "0-3\n");
  put(system + "/node/online", "0-1\n");
  put(system + "/node/possible", "0-1\n");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string path = system + "/cpu/cpu" + std::to_string(cpu), mask = std::to_string(1 << cpu);
    put(path + "/online", "1\n");
    put(path + "/topology/physical_package_id", std::to_string(cpu / 2) + "\n");
    put(path + "/topology/core_id", std::to_string(cpu % 2) + "\n");
    put(path + "/topology/thread_siblings", mask + "\n");
    put(path + "/topology/core_cpus", mask + "\n");
    put(path + "/topology/core_siblings", cpu < 2 ? "3\n" : "c\n");
    put(path + "/topology/package_cpus", cpu < 2 ? "3\n" : "c\n");
  }
  for (int node = 0; node < 2; ++node) {
    const std::string path = system + "/node/node" + std::to_string(node), number = std::to_string(node);
    put(path + "/cpumap", node == 0 ? "3\n" : "c\n");
    put(path + "/cpulist", node == 0 ? "0-1\n" : "2-3\n");
    put(path + "/meminfo", "Node " + number + " MemTotal:        1048576 kB\n");
    put(path + "/distance", node == 0 ? "10 21\n" : "21 10\n");
  }
  std::string config(64, '\0');  // configuration space: vendor, device, class
  config[0] = '\xde', config[1] = '\x10', config[2] = '\x35', config[3] = '\x23', config[10] = 2, config[11] = 3;
  const std::string gpu = root + "/sys/bus/pci/devices/0000:81:00.0";
  put(gpu + "/config", config);
  put(gpu + "/class", "0x030200\n");
  put(gpu + "/vendor", "0x10de\n");
  put(gpu + "/device", "0x2335\n");
  put(gpu + "/local_cpus", "c\n");
  put(gpu + "/numa_node", "1\n");
}

}  // namespace

TEST("a host of eight GPUs is read: nodes, cores, hyperthreads, and the node near each GPU") {
  const Topology host = eight_gpus();
  CHECK_EQ(host.nodes.size(), 2u);
  CHECK_EQ(host.nodes[1].id, 1);
  CHECK_EQ(host.nodes[0].memory_bytes, 512ULL << 30);
  CHECK(host.nodes[0].cpus == together(range(0, 7), range(16, 23)));
  CHECK(host.nodes[1].cpus == together(range(8, 15), range(24, 31)));
  CHECK_EQ(host.cores.size(), 16u);
  CHECK((host.cores[9].cpus == std::vector<int>{9, 25}));
  CHECK_EQ(host.cores[9].node, 1);
  CHECK_EQ(host.gpus.size(), 8u);  // and not the two network cards
  for (std::size_t i = 0; i < 8; ++i) CHECK_EQ(host.gpus[i].node, i < 4 ? 0 : 1);
  CHECK_EQ(host.gpus[0].pci, "0000:1b:00.0");
  CHECK_EQ(host.gpus[0].name, "NVIDIA H200");
  CHECK(host.allowed_cpus == range(0, 31));
  CHECK((host.allowed_nodes == std::vector<int>{0, 1}));
}

TEST("a tree of sysfs files is read, and this machine is still itself afterwards") {
  const Topology before = Topology::of_this_machine();
  const TemporaryDirectory root;
  make_sysfs(root.path());
  const Topology host = Topology::from_sysfs(root.path());
  CHECK_EQ(host.nodes.size(), 2u);
  CHECK((host.nodes[1].cpus == std::vector<int>{2, 3}));
  CHECK_EQ(host.nodes[1].memory_bytes, 1ULL << 30);
  CHECK_EQ(host.cores.size(), 4u);
  CHECK_EQ(host.gpus.size(), 1u);
  if (!host.gpus.empty()) {
    CHECK_EQ(host.gpus[0].pci, "0000:81:00.0");
    CHECK_EQ(host.gpus[0].node, 1);
  }
  const Topology after = Topology::of_this_machine();
  CHECK(after.allowed_cpus == before.allowed_cpus);
  CHECK_EQ(after.nodes.size(), before.nodes.size());
  CHECK_EQ(after.gpus.size(), before.gpus.size());
}

TEST("what is no description of a machine is refused") {
  const TemporaryDirectory directory;
  CHECK_THROWS(Topology::from_xml(directory.path() + "/none.xml"), "No such file");
  write_file_atomically(directory.path() + "/a.xml", "<topology");
  CHECK_THROWS(Topology::from_xml(directory.path() + "/a.xml"), "no topology that hwloc understands");
  write_file_atomically(directory.path() + "/a.xml", "");
  CHECK_THROWS(Topology::from_xml(directory.path() + "/a.xml"), "a.xml'");
  CHECK_THROWS(Topology::from_sysfs(directory.path()), "No such file");
}

TEST("this machine has what this process may use, and a narrower mask narrows it") {
  const Topology machine = Topology::of_this_machine();
  CHECK(!machine.nodes.empty());
  CHECK(!machine.allowed_cpus.empty());
  CHECK(!machine.allowed_nodes.empty());
  CHECK(!nodes_of(machine, machine.allowed_cpus).empty());
  cpu_set_t mask, one;
  CHECK_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
  CPU_ZERO(&one);
  CPU_SET(machine.allowed_cpus.back(), &one);
  CHECK_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const Topology narrow = Topology::of_this_machine();
  ::sched_setaffinity(0, sizeof mask, &mask);
  CHECK((narrow.allowed_cpus == std::vector<int>{machine.allowed_cpus.back()}));
}

TEST("workers are put on their node's CPUs, near the GPU that they serve") {
  const Topology host = eight_gpus();
  CHECK(cpus_for_worker(host, {}, 3).empty());
  const PlacementRequest by_node{.placement = Placement::per_node};
  CHECK(cpus_for_worker(host, by_node, 0) == host.nodes[0].cpus);
  CHECK(cpus_for_worker(host, by_node, 1) == host.nodes[1].cpus);
  CHECK(cpus_for_worker(host, by_node, 2) == host.nodes[0].cpus);
  for (int worker = 0; worker < 3; ++worker) {
    CHECK(cpus_for_worker(host, {.placement = Placement::per_node, .gpu = 0}, worker) == host.nodes[0].cpus);
    CHECK(cpus_for_worker(host, {.placement = Placement::per_node, .gpu = 7}, worker) == host.nodes[1].cpus);
  }
  CHECK_THROWS(cpus_for_worker(host, {.placement = Placement::per_node, .gpu = 8}, 0), "near GPU 8: this machine has 8 GPUs");
  CHECK((cpus_for_worker(host, {.placement = Placement::listed, .cpus = {3, 5}}, 3) == std::vector<int>{5}));
  CHECK_THROWS(cpus_for_worker(host, {.placement = Placement::listed}, 0), "the list is empty");
}

TEST("no worker is put on a CPU that is not allowed") {
  Topology host = eight_gpus();
  host.allowed_cpus = {2, 9, 25};
  const PlacementRequest by_node{.placement = Placement::per_node};
  CHECK((cpus_for_worker(host, by_node, 0) == std::vector<int>{2}));
  CHECK((cpus_for_worker(host, by_node, 1) == std::vector<int>{9, 25}));
  CHECK_THROWS(cpus_for_worker(host, {.placement = Placement::listed, .cpus = {3}}, 0),
               "on CPU 3: this process may use only 2,9,25");
  host.allowed_cpus = {9};  // the GPU's node is closed: the best that is left
  CHECK((cpus_for_worker(host, {.placement = Placement::per_node, .gpu = 0}, 0) == std::vector<int>{9}));
  host.gpus[0].node = -1;
  CHECK((cpus_for_worker(host, {.placement = Placement::per_node, .gpu = 0}, 5) == std::vector<int>{9}));
}

TEST("hyperthreads of one core are told from two cores") {
  const Topology host = eight_gpus();
  CHECK(sharing_a_core(host, {0, 1, 2, 8}).empty());
  CHECK((sharing_a_core(host, {0, 16, 1, 17}) == std::vector<int>{16, 17}));
  CHECK((sharing_a_core(host, {3, 3}) == std::vector<int>{3}));
  CHECK((nodes_of(host, {0, 23}) == std::vector<int>{0}));
  CHECK((nodes_of(host, {7, 8}) == std::vector<int>{0, 1}));
  CHECK(nodes_of(host, {}).empty());
}

TEST("lists of CPUs are read and written as the kernel writes them") {
  CHECK((parse_cpu_list("0-3,8\n") == std::vector<int>{0, 1, 2, 3, 8}));
  CHECK((parse_cpu_list("8,0-1,1") == std::vector<int>{0, 1, 8}));
  CHECK(parse_cpu_list("").empty());
  CHECK_EQ(cpu_list_text({0, 1, 2, 3, 8}), "0-3,8");
  CHECK_EQ(cpu_list_text({5, 3, 4}), "3-5");
  CHECK_EQ(cpu_list_text({}), "");
  for (const char* text : {"a", "1-", "-1", "1,,2", "1 2", "0x1", "1-2-3", "99999999999", "0-999999999"})
    CHECK_THROWS(parse_cpu_list(text), "is no CPU number");
  CHECK_THROWS(parse_cpu_list("3-1"), "'3-1' descends");
}
