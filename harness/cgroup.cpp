#include "harness/cgroup.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <vector>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/text.hpp"

namespace misfire {
namespace {

std::string read_or_empty(const std::string& path) {
  try {
    std::string text = read_whole_file(path, 1 << 20);
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
  } catch (const Error&) {
    return "";
  }
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool listed(std::string_view list, std::string_view word) {
  const auto words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Calls `visit` for the group and each group above it, up to the mount.
void upwards(const ControlGroup& group, const std::function<void(const std::string& directory)>& visit) {
  std::string directory = group.directory;
  for (;;) {
    visit(directory);
    if (directory.size() <= group.mount.size()) return;
    directory.resize(std::max(directory.rfind('/'), group.mount.size()));
  }
}

}  // namespace

std::optional<ControlGroup> control_group(std::string_view controller, const std::string& proc) {
  // "4:memory:/path" names a hierarchy of its own, "0::/path" the unified one.
  std::string own_path, unified_path;
  for (const std::string& line : split(read_or_empty(proc + "/cgroup"), '\n')) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (controllers.empty()) unified_path = line.substr(second + 1);
    if (listed(controllers, controller)) own_path = line.substr(second + 1);
  }
  std::optional<ControlGroup> found;
  for (const std::string& line : split(read_or_empty(proc + "/mountinfo"), '\n')) {
    // id parent device root mount-point options... - type source super-options
    const std::vector<std::string> fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 6 || fields.end() - dash < 4) continue;
    const std::string &root = fields[3], &mount = fields[4], &type = dash[1];
    const bool own = type == "cgroup" && !own_path.empty() && listed(dash[3], controller);
    const bool unified = type == "cgroup2" && own_path.empty() && !unified_path.empty();
    if (!own && !unified) continue;
    std::string path = own ? own_path : unified_path;
    // A container may see a part of the hierarchy: then the mount's root is a group, and ours is below it or it.
    if (root != "/") path = path.starts_with(root) ? path.substr(root.size()) : "";
    if (path == "/" || path.starts_with("/..")) path.clear();
    found = ControlGroup{own ? 1 : 2, mount + path, mount};
  }
  // Unified hierarchies beside old ones have only the controllers that the old ones left.
  if (found && found->version == 2) {
    const auto there = split(read_or_empty(found->mount + "/cgroup.controllers"), ' ');
    if (std::find(there.begin(), there.end(), controller) == there.end()) return std::nullopt;
  }
  return found;
}

std::optional<double> cpu_quota(const std::optional<ControlGroup>& group) {
  std::optional<double> least;
  if (!group) return least;
  upwards(*group, [&](const std::string& directory) {
    std::optional<std::int64_t> quota, period;
    if (group->version == 2) {
      const auto parts = split(read_or_empty(directory + "/cpu.max"), ' ');
      if (parts.size() != 2) return;
      quota = integer(parts[0]);  // "max" is none
      period = integer(parts[1]);
    } else {
      quota = integer(read_or_empty(directory + "/cpu.cfs_quota_us"));
      period = integer(read_or_empty(directory + "/cpu.cfs_period_us"));
    }
    if (!quota || !period || *quota <= 0 || *period <= 0) return;
    const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
    least = std::min(least.value_or(cpus), cpus);
  });
  return least;
}

std::optional<std::uint64_t> memory_limit(const std::optional<ControlGroup>& group) {
  std::optional<std::uint64_t> least;
  if (!group) return least;
  upwards(*group, [&](const std::string& directory) {
    const auto limit = integer(read_or_empty(directory + (group->version == 2 ? "/memory.max" : "/memory.limit_in_bytes")));
    if (!limit || *limit < 0 || *limit >= INT64_MAX / 4096 * 4096) return;  // version 1 writes "no limit" so
    least = std::min(least.value_or(static_cast<std::uint64_t>(*limit)), static_cast<std::uint64_t>(*limit));
  });
  return least;
}

std::optional<std::uint64_t> oom_kills(const std::optional<ControlGroup>& group) {
  if (!group) return std::nullopt;
  const std::string text = read_or_empty(group->directory + (group->version == 2 ? "/memory.events" : "/memory.oom_control"));
  for (const std::string& line : split(text, '\n'))
    if (line.starts_with("oom_kill "))
      if (const auto count = integer(std::string_view(line).substr(9))) return static_cast<std::uint64_t>(*count);
  return std::nullopt;
}

}  // namespace misfire
