// What /proc tells about the processes of a trial.

#include "harness/procfs.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "harness/topology.hpp"

namespace misfire {
namespace {

/// A file of /proc, whole; empty when it cannot be read (the process has gone, or is not ours).
std::string slurp(const std::string& path) {
  std::string text;
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return text;
  char buffer[16384];
  for (ssize_t count; (count = read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  close(descriptor);
  return text;
}

template <class Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    visit(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
}

std::uint64_t number_after(std::string_view line, std::string_view key) {
  if (!line.starts_with(key)) return 0;
  line.remove_prefix(key.size());
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  std::uint64_t value = 0;
  std::from_chars(line.data(), line.data() + line.size(), value);
  return value;
}

struct Stat {
  int pid = 0, ppid = 0;
  char state = '?';
  std::string name;
  std::uint64_t minor_faults = 0, user_ticks = 0, system_ticks = 0, start_ticks = 0;
  int threads = 0;
};

std::optional<Stat> read_stat(int pid) {
  const std::string text = slurp("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t open = text.find('('), close = text.rfind(')');  // the name may hold anything
  if (open == std::string::npos || close == std::string::npos || close + 2 >= text.size()) return std::nullopt;
  Stat stat;
  stat.pid = pid;
  stat.name = text.substr(open + 1, close - open - 1);
  stat.state = text[close + 2];
  const char* cursor = text.c_str() + close + 3;
  for (int field = 4; field <= 22; ++field) {
    char* end = nullptr;
    const unsigned long long value = std::strtoull(cursor, &end, 10);
    cursor = end;
    if (field == 4) stat.ppid = static_cast<int>(value);
    if (field == 10) stat.minor_faults = value;
    if (field == 14) stat.user_ticks = value;
    if (field == 15) stat.system_ticks = value;
    if (field == 20) stat.threads = static_cast<int>(value);
    if (field == 22) stat.start_ticks = value;
  }
  return stat;
}

std::vector<Stat> stats_below(int root) {
  std::map<int, Stat> all;
  if (DIR* directory = opendir("/proc")) {
    while (const dirent* entry = readdir(directory)) {
      if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
      if (auto stat = read_stat(std::atoi(entry->d_name))) all[stat->pid] = std::move(*stat);
    }
    closedir(directory);
  }
  std::vector<Stat> result;
  std::set<int> known{root};
  for (bool grew = true; grew;) {
    grew = false;
    for (auto& [pid, stat] : all) {
      if (known.contains(pid) || !known.contains(stat.ppid)) continue;
      known.insert(pid);
      result.push_back(stat);
      grew = true;
    }
  }
  return result;
}

void read_status(const std::string& base, ProcessSnapshot& process) {
  const std::string text = slurp(base + "status");
  for_each_line(text, [&](std::string_view line) {
    if (line.starts_with("Cpus_allowed_list:\t")) process.cpus_allowed = parse_cpu_list(line.substr(19));
    if (line.starts_with("Mems_allowed_list:\t")) process.mems_allowed = parse_cpu_list(line.substr(19));
    if (line.starts_with("voluntary_ctxt_switches:"))
      process.voluntary_switches = static_cast<std::int64_t>(number_after(line, "voluntary_ctxt_switches:"));
    if (line.starts_with("nonvoluntary_ctxt_switches:"))
      process.involuntary_switches = static_cast<std::int64_t>(number_after(line, "nonvoluntary_ctxt_switches:"));
  });
}

void read_memory(const std::string& base, const std::vector<WatchedRegion>& regions, ProcessSnapshot& process) {
  const std::string rollup = slurp(base + "smaps_rollup");
  for_each_line(rollup, [&](std::string_view line) {
    if (line.starts_with("Rss:")) process.rss_bytes = number_after(line, "Rss:") * 1024;
    if (line.starts_with("Pss:")) process.pss_bytes = number_after(line, "Pss:") * 1024;
    if (line.starts_with("Private_Dirty:")) process.private_dirty_bytes = number_after(line, "Private_Dirty:") * 1024;
  });
  if (regions.empty()) return;
  for (const WatchedRegion& region : regions) process.regions.push_back({region.name, 0, 0, {}});

  // smaps: a header "start-end perms ..." per mapping, then its counters. A region may have been split into several mappings.
  const std::string smaps = slurp(base + "smaps");
  ProcessSnapshot::Region* here = nullptr;
  for_each_line(smaps, [&](std::string_view line) {
    std::uint64_t start = 0, end = 0;
    const auto first = std::from_chars(line.data(), line.data() + line.size(), start, 16);
    if (first.ec == std::errc() && first.ptr < line.data() + line.size() && *first.ptr == '-' &&
        std::from_chars(first.ptr + 1, line.data() + line.size(), end, 16).ec == std::errc()) {
      here = nullptr;
      for (std::size_t i = 0; i < regions.size(); ++i)
        if (start >= regions[i].address && end <= regions[i].address + regions[i].bytes) here = &process.regions[i];
      return;
    }
    if (!here) return;
    if (line.starts_with("Rss:")) here->rss_bytes += number_after(line, "Rss:") * 1024;
    if (line.starts_with("Private_Dirty:")) here->private_dirty_bytes += number_after(line, "Private_Dirty:") * 1024;
  });

  const std::string numa = slurp(base + "numa_maps");
  for_each_line(numa, [&](std::string_view line) {
    std::uint64_t start = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), start, 16).ec != std::errc()) return;
    for (std::size_t i = 0; i < regions.size(); ++i) {
      if (start < regions[i].address || start >= regions[i].address + regions[i].bytes) continue;
      // "N0=123": pages on node 0
      for (std::size_t at = line.find(" N"); at != std::string_view::npos; at = line.find(" N", at + 1)) {
        std::size_t node = 0;
        std::uint64_t pages = 0;
        const char* stop = line.data() + line.size();
        const auto parsed = std::from_chars(line.data() + at + 2, stop, node);
        if (parsed.ec != std::errc() || parsed.ptr == stop || *parsed.ptr != '=' || node > 1023) continue;
        std::from_chars(parsed.ptr + 1, stop, pages);
        auto& nodes = process.regions[i].pages_by_node;
        if (nodes.size() <= node) nodes.resize(node + 1);
        nodes[node] += pages;
      }
    }
  });
}

}  // namespace

std::vector<ProcessSnapshot> snapshot_descendants(int root, bool memory, const std::vector<WatchedRegion>& regions) {
  static const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::vector<ProcessSnapshot> result;
  for (const Stat& stat : stats_below(root)) {
    ProcessSnapshot process;
    process.pid = stat.pid;
    process.ppid = stat.ppid;
    process.state = stat.state;
    process.name = stat.name;
    process.threads = stat.threads;
    process.minor_faults = stat.minor_faults;
    process.cpu_seconds = static_cast<double>(stat.user_ticks + stat.system_ticks) / ticks;
    process.start_seconds = static_cast<double>(stat.start_ticks) / ticks;
    const std::string base = "/proc/" + std::to_string(stat.pid) + "/";
    read_status(base, process);
    if (memory) read_memory(base, regions, process);
    result.push_back(std::move(process));
  }
  return result;
}

std::vector<int> descendants(int root) {
  std::vector<int> result;
  for (const Stat& stat : stats_below(root)) result.push_back(stat.pid);
  return result;
}

}  // namespace misfire
