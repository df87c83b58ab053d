#include "harness/environment.hpp"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "harness/cgroup.hpp"
#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/text.hpp"
#include "harness/topology.hpp"
#include "harness/unit.hpp"
#include "misfire_config.hpp"

namespace misfire {
namespace {

namespace fs = std::filesystem;

std::string trimmed(std::string text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// Words of a text, whatever blanks are between them.
std::vector<std::string> words(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
  std::vector<std::string> all = split(text, ' ');
  std::erase(all, "");
  return all;
}

/// Reads what the system tells of itself. What cannot be read is null in the result, and here with its reason.
class Reader {
 public:
  /// Content without blanks around it, or nothing.
  std::optional<std::string> text(const std::string& path) {
    try {
      return trimmed(read_whole_file(path, 1 << 20));
    } catch (const Error& error) {
      unreadable_.set(path, error.what());
      return std::nullopt;
    }
  }
  Json string(const std::string& path) {
    const auto content = text(path);
    return content ? Json(*content) : Json();
  }
  /// Content as a number.
  Json amount(const std::string& path) {
    const auto content = text(path);
    if (!content) return {};
    const auto value = number(*content);
    if (!value) unreadable_.set(path, "it is no number");
    return value ? whole(*value) : Json();
  }
  /// The beginning of a file that is long, and costly to make: one read.
  std::string beginning(const std::string& path) {
    std::array<char, 4096> buffer;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd < 0 ? -1 : ::read(fd, buffer.data(), buffer.size());
    if (got < 0) unreadable_.set(path, system_error("read", path, errno).what());
    if (fd >= 0) ::close(fd);
    return std::string(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  void could_not(const std::string& what, const std::string& why) { unreadable_.set(what, why); }
  Json unreadable() const { return unreadable_; }

  static Json whole(double value) {
    if (value == std::floor(value) && std::fabs(value) < 0x1p63) return static_cast<std::int64_t>(value);
    return value;
  }

 private:
  Json unreadable_ = Json::object();
};

// "key : value" lines up to the first empty one.
std::map<std::string, std::string> key_values(const std::string& text) {
  std::map<std::string, std::string> values;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty() && !values.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos) values.emplace(trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  }
  return values;
}

// The value in brackets: "always [madvise] never".
Json selected(const Json& text) {
  if (!text.is_string()) return {};
  const std::string& line = text.as_string();
  const auto open = line.find('['), close = line.find(']');
  return open == std::string::npos || close == std::string::npos ? text : Json(line.substr(open + 1, close - open - 1));
}

// Vendors of ARM CPUs by their implementer code. @source Linux, arch/arm64/include/asm/cputype.h
std::string arm_vendor(const std::string& code) {
  constexpr std::pair<std::string_view, std::string_view> vendors[] = {
      {"0x41", "arm"},      {"0x4e", "nvidia"}, {"0xc0", "ampere"}, {"0x48", "hisilicon"},
      {"0x51", "qualcomm"}, {"0x61", "apple"},  {"0x43", "cavium"}, {"0x46", "fujitsu"}};
  for (const auto& [number_text, name] : vendors)
    if (code == number_text) return std::string(name);
  return code;
}

Json describe_cpu(Reader& reader) {
  const std::string cpus = "/sys/devices/system/cpu";
  const auto info = key_values(reader.beginning("/proc/cpuinfo"));
  const auto field = [&](const char* key) -> Json {
    const auto it = info.find(key);
    if (it == info.end()) return {};
    const auto value = number(it->second);
    return value && it->second.find_first_not_of("0123456789.") == std::string::npos ? Reader::whole(*value) : Json(it->second);
  };
  Json cpu = Json::object();
  if (info.contains("CPU implementer")) {
    cpu.set("vendor", arm_vendor(info.at("CPU implementer")));
    cpu.set("family", field("CPU architecture"));
    cpu.set("model", field("CPU part"));
    cpu.set("model_name", field("model name"));
  } else {
    std::string vendor = field("vendor_id").is_string() ? field("vendor_id").as_string() : "";
    if (vendor == "GenuineIntel") vendor = "intel";
    if (vendor == "AuthenticAMD") vendor = "amd";
    cpu.set("vendor", vendor.empty() ? Json() : Json(to_lower(vendor)));
    cpu.set("family", field("cpu family"));
    cpu.set("model", field("model"));
    cpu.set("model_name", field("model name"));
    cpu.set("stepping", field("stepping"));
    cpu.set("microcode", field("microcode"));
    cpu.set("mhz", field("cpu MHz"));
  }
  const std::string flags = info.contains("flags") ? " " + info.at("flags") + " " : "";
  cpu.set("hypervisor", flags.empty() ? Json() : Json(flags.find(" hypervisor ") != std::string::npos));
  const auto online = reader.text(cpus + "/online");
  const std::vector<int> allowed = affinity_mask();
  cpu.set("online", online ? Json(*online) : Json());
  cpu.set("allowed", cpu_list_text(allowed));
  const std::optional<double> quota = cpu_quota(control_group("cpu"));
  cpu.set("quota", quota ? Json(*quota) : Json());
  const auto count = static_cast<std::int64_t>(allowed.size());
  cpu.set("usable", quota ? std::min<std::int64_t>(count, std::max<std::int64_t>(1, std::llround(*quota))) : count);
  const auto siblings = reader.text(cpus + "/cpu0/topology/thread_siblings_list");
  cpu.set("threads_per_core", siblings ? Json(parse_cpu_list(*siblings).size()) : Json());
  cpu.set("governor", fs::exists(cpus + "/cpu0/cpufreq") ? reader.string(cpus + "/cpu0/cpufreq/scaling_governor") : Json());
  Json caches = Json::array();
  for (int i = 0; i < 8; ++i) {
    const std::string path = cpus + "/cpu0/cache/index" + std::to_string(i);
    if (::access(path.c_str(), F_OK) != 0) break;
    Json cache = Json::object();
    cache.set("level", reader.amount(path + "/level"));
    cache.set("type", reader.string(path + "/type"));
    const auto size = reader.text(path + "/size");
    cache.set("bytes", size ? Json(parse_size(*size)) : Json());
    cache.set("shared_by", reader.string(path + "/shared_cpu_list"));
    caches.push_back(std::move(cache));
  }
  cpu.set("caches", std::move(caches));
  return cpu;
}

Json describe_numa(Reader& reader) {
  Json nodes = Json::array();
  if (const auto online = reader.text("/sys/devices/system/node/online")) {
    for (int id : parse_cpu_list(*online)) {
      const std::string path = "/sys/devices/system/node/node" + std::to_string(id);
      Json node = Json::object({{"id", id}});
      node.set("cpus", reader.string(path + "/cpulist"));
      node.set("distances", reader.string(path + "/distance"));
      Json bytes;
      if (const auto info = reader.text(path + "/meminfo")) {
        const auto parts = words(*info);  // Node 0 MemTotal: 1048576 kB ...
        const auto total = std::find(parts.begin(), parts.end(), "MemTotal:");
        if (total != parts.end() && total + 1 != parts.end() && number(total[1])) bytes = Reader::whole(*number(total[1]) * 1024);
      }
      node.set("memory_bytes", std::move(bytes));
      nodes.push_back(std::move(node));
    }
  }
  Json numa = Json::object({{"nodes", std::move(nodes)}});
  const std::string balancing = "/proc/sys/kernel/numa_balancing";
  numa.set("balancing", fs::exists(balancing) ? reader.amount(balancing) : Json());
  if (const auto status = reader.text("/proc/self/status")) {
    const auto values = key_values(*status);
    if (const auto it = values.find("Mems_allowed_list"); it != values.end()) numa.set("allowed", it->second);
  }
  return numa;
}

Json describe_memory(Reader& reader) {
  Json memory = Json::object();
  const auto info = key_values(reader.text("/proc/meminfo").value_or(""));
  for (const auto& [key, name] : {std::pair{"MemTotal", "total_bytes"},
                                  {"MemAvailable", "available_bytes"},
                                  {"SwapTotal", "swap_total_bytes"},
                                  {"SwapFree", "swap_free_bytes"},
                                  {"Shmem", "shared_bytes"},
                                  {"HugePages_Total", "huge_pages"}}) {
    const auto it = info.find(key);
    const auto value = it == info.end() ? std::nullopt : number(it->second);
    memory.set(name, !value ? Json() : Reader::whole(it->second.ends_with("kB") ? *value * 1024 : *value));
  }
  memory.set("transparent_huge_pages", selected(reader.string("/sys/kernel/mm/transparent_hugepage/enabled")));
  memory.set("overcommit", reader.amount("/proc/sys/vm/overcommit_memory"));
  memory.set("page_bytes", ::sysconf(_SC_PAGESIZE));
  return memory;
}

Json describe_control_groups(Reader& reader) {
  Json groups = Json::object();
  const auto cpu = control_group("cpu"), memory = control_group("memory");
  groups.set("version", memory ? Json(memory->version) : cpu ? Json(cpu->version) : Json());
  const auto quota = cpu_quota(cpu);
  const auto limit = memory_limit(memory);
  groups.set("cpu_quota", quota ? Json(*quota) : Json());
  groups.set("memory_limit_bytes", limit ? Json(*limit) : Json());
  const auto pids = control_group("pids");
  const std::string pids_file = pids ? pids->directory + "/pids.max" : "";
  groups.set("pids_limit", pids && fs::exists(pids_file) ? reader.string(pids_file) : Json());
  return groups;
}

Json describe_kernel(Reader& reader) {
  Json kernel = Json::object();
  utsname name{};
  ::uname(&name);
  kernel.set("release", name.release);
  kernel.set("version", name.version);
  kernel.set("machine", name.machine);
  kernel.set("clocksource", reader.string("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
  Json distribution;
  if (const auto release = reader.text("/etc/os-release"))
    for (const std::string& line : split(*release, '\n'))
      if (line.starts_with("PRETTY_NAME=")) {
        std::string text = line.substr(12);
        std::erase(text, '"');
        distribution = text;
      }
  kernel.set("distribution", std::move(distribution));
  Json container;
  if (::access("/.dockerenv", F_OK) == 0) container = "docker";
  if (::access("/run/.containerenv", F_OK) == 0) container = "podman";
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) container = "kubernetes";
  kernel.set("container", std::move(container));
  return kernel;
}

Json describe_libraries() {
  Json libraries = Json::object();
  libraries.set("misfire", MISFIRE_VERSION);
  libraries.set("compiler", __VERSION__);
  libraries.set("libc", std::string("glibc ") + ::gnu_get_libc_version());
  // Shared objects of this process under their real names, which end in their versions.
  std::set<std::string> loaded;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* names) {
        std::error_code error;
        if (info->dlpi_name != nullptr && info->dlpi_name[0] == '/')
          static_cast<std::set<std::string>*>(names)->insert(fs::canonical(info->dlpi_name, error).filename().string());
        return 0;
      },
      &loaded);
  Json names = Json::array();
  for (const std::string& name : loaded) names.push_back(name);
  libraries.set("loaded", std::move(names));
  return libraries;
}

// Display devices on the PCI bus, and what NVIDIA's driver says without being initialised.
Json describe_gpus(Reader& reader) {
  Json gpus = Json::array();
  std::error_code error;
  const std::string bus = "/sys/bus/pci/devices";
  std::set<std::string> addresses;
  for (fs::directory_iterator it(bus, error), end; !error && it != end; it.increment(error))
    addresses.insert(it->path().filename().string());
  for (const std::string& address : addresses) {
    const std::string path = bus + "/" + address;
    const auto device_class = reader.text(path + "/class");
    if (!device_class || !device_class->starts_with("0x03")) continue;
    Json gpu = Json::object({{"pci", address}});
    gpu.set("vendor", reader.string(path + "/vendor"));
    gpu.set("device", reader.string(path + "/device"));
    gpu.set("numa_node", reader.amount(path + "/numa_node"));
    const std::string information = "/proc/driver/nvidia/gpus/" + address + "/information";
    Json model;
    if (fs::exists(information, error))
      if (const auto text = reader.text(information)) {
        const auto values = key_values(*text);
        if (const auto it = values.find("Model"); it != values.end()) model = it->second;
      }
    gpu.set("model", std::move(model));
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Json driver_version(Reader& reader) {
  const std::string path = "/proc/driver/nvidia/version";
  if (!fs::exists(path)) return {};
  const auto text = reader.text(path);
  return text ? Json(text->substr(0, text->find('\n'))) : Json();
}

// mountinfo writes blanks in paths as octal escapes.
std::string unescaped(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

Json describe_mounts(Reader& reader, const std::vector<std::string>& paths) {
  Json mounts = Json::array();
  std::vector<std::string> wanted = {"/dev/shm", "/tmp"};
  wanted.insert(wanted.end(), paths.begin(), paths.end());
  const std::vector<std::string> table = split(reader.text("/proc/self/mountinfo").value_or(""), '\n');
  for (const std::string& path : wanted) {
    Json mount = Json::object({{"path", path}});
    std::error_code error;
    const std::string real = fs::canonical(path, error).string();
    if (error) {
      reader.could_not(path, error.message());
      mounts.push_back(std::move(mount));
      continue;
    }
    std::string best;  // the longest mount point that the path is below; of several on one place the last, which hides the others
    for (const std::string& line : table) {
      const auto fields = split(line, ' ');
      const auto dash = std::find(fields.begin(), fields.end(), "-");
      if (fields.size() < 6 || fields.end() - dash < 4) continue;
      const std::string point = unescaped(fields[4]);
      const bool below = point == "/" || real == point || real.starts_with(point + "/");
      if (!below || point.size() < best.size()) continue;
      best = point;
      mount.set("mount", point);
      mount.set("type", dash[1]);
      mount.set("device", dash[2]);
      mount.set("options", fields[5] + "," + dash[3]);
    }
    struct statvfs space {};
    if (::statvfs(real.c_str(), &space) == 0) {
      mount.set("total_bytes", std::uint64_t{space.f_blocks} * space.f_frsize);
      mount.set("available_bytes", std::uint64_t{space.f_bavail} * space.f_frsize);
    }
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

Json describe_limits() {
  Json limits = Json::object();
  for (const auto& [resource, name] : {std::pair<decltype(RLIMIT_NOFILE), const char*>{RLIMIT_NOFILE, "open_files"},
                                       {RLIMIT_MEMLOCK, "locked_bytes"},
                                       {RLIMIT_AS, "address_space_bytes"},
                                       {RLIMIT_DATA, "data_bytes"},
                                       {RLIMIT_NPROC, "processes"},
                                       {RLIMIT_CORE, "core_bytes"},
                                       {RLIMIT_FSIZE, "file_bytes"}}) {
    rlimit limit{};
    const bool known = ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    limits.set(name, known ? Json(static_cast<std::uint64_t>(limit.rlim_cur)) : Json());
  }
  return limits;
}

// "some avg10=0.00 avg60=... total=123" of each resource; null where the kernel keeps no such account.
Json describe_pressure(Reader& reader) {
  Json pressure = Json::object();
  for (const char* resource : {"cpu", "memory", "io"}) {
    Json figures;
    if (const auto text = reader.text(std::string("/proc/pressure/") + resource)) {
      for (const std::string& word : words(text->substr(0, text->find('\n')))) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos) continue;
        const auto value = number(std::string_view(word).substr(equals + 1));
        if (!value) continue;
        const std::string key = word.substr(0, equals);
        // Shares of time in percent, and a total in microseconds: in base units as everything else.
        if (key.starts_with("avg")) figures.set(key, *value / 100);
        if (key == "total") figures.set("total_seconds", *value * 1e-6);
      }
    }
    pressure.set(resource, std::move(figures));
  }
  return pressure;
}

Json describe_load(Reader& reader) {
  Json load = Json::object();
  std::vector<std::string> averages = words(reader.text("/proc/loadavg").value_or(""));
  averages.resize(5);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto value = number(averages[i]);
    load.set(i == 0 ? "load_1" : i == 1 ? "load_5" : "load_15", value ? Json(*value) : Json());
  }
  const auto running = number(averages[3].substr(0, averages[3].find('/')));
  load.set("running", running ? Reader::whole(*running) : Json());
  // cpu user nice system idle iowait irq softirq steal ...: seconds since boot, of all CPUs.
  const std::string stat = reader.beginning("/proc/stat");
  const std::vector<std::string> times = words(stat.substr(0, stat.find('\n')));
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  double total = 0;
  for (std::size_t i = 1; i < std::min<std::size_t>(times.size(), 9); ++i) total += number(times[i]).value_or(0) * tick;
  const auto seconds = [&](std::size_t field) {
    return times.size() > field ? Json(number(times[field]).value_or(0) * tick) : Json();
  };
  load.set("cpu_seconds", times.size() > 8 ? Json(total) : Json());
  load.set("idle_seconds", seconds(4));
  load.set("steal_seconds", seconds(8));
  load.set("pressure", describe_pressure(reader));
  return load;
}

// Size in GiB to four binary digits, upwards: what a machine was sold as, not what its kernel left of it.
std::int64_t nominal_gib(double bytes) {
  const double gib = bytes / (1 << 30);
  if (gib <= 8) return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(gib)));
  const double step = std::exp2(std::floor(std::log2(gib)) - 3);
  return static_cast<std::int64_t>(std::ceil(gib / step) * step);
}

std::string word_of(const Json* value) {
  if (value == nullptr || value->is_null()) return "unknown";
  std::string text = value->is_string() ? to_lower(value->as_string()) : value->dump();
  for (char& c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.')) c = '_';
  return text;
}

}  // namespace

Json capture_environment(const std::vector<std::string>& paths) {
  Reader reader;
  Json environment = Json::object();
  environment.set("unix_seconds", static_cast<std::int64_t>(std::time(nullptr)));
  environment.set("cpu", describe_cpu(reader));
  environment.set("numa", describe_numa(reader));
  environment.set("memory", describe_memory(reader));
  environment.set("cgroup", describe_control_groups(reader));
  environment.set("kernel", describe_kernel(reader));
  environment.set("libraries", describe_libraries());
  environment.set("gpus", describe_gpus(reader));
  environment.set("gpu_driver", driver_version(reader));
  environment.set("mounts", describe_mounts(reader, paths));
  environment.set("limits", describe_limits());
  environment.set("load", describe_load(reader));
  environment.set("unreadable", reader.unreadable());
  environment.set("hardware_class", hardware_class(environment));
  return environment;
}

Json capture_load() {
  Reader reader;
  Json load = describe_load(reader);
  load.set("unreadable", reader.unreadable());
  return load;
}

std::string hardware_class(const Json& environment) {
  const auto part = [&](const char* group, const char* key) -> const Json* {
    const Json* found = environment.find(group);
    return found == nullptr ? nullptr : found->find(key);
  };
  std::string name = word_of(part("cpu", "vendor")) + "-" + word_of(part("cpu", "family")) + "-" + word_of(part("cpu", "model")) +
                     "-" + word_of(part("cpu", "usable")) + "c-";
  const Json* total = part("memory", "total_bytes");
  const Json* limit = part("cgroup", "memory_limit_bytes");
  if (total != nullptr && total->is_number()) {
    double bytes = total->as_double();
    if (limit != nullptr && limit->is_number()) bytes = std::min(bytes, limit->as_double());
    name += std::to_string(nominal_gib(bytes)) + "g";
  } else {
    name += "unknown";
  }
  std::map<std::string, int> models;  // NVIDIA's by name; other display devices do not compute here
  if (const Json* gpus = environment.find("gpus"); gpus != nullptr && gpus->is_array())
    for (const Json& gpu : gpus->as_array())
      if (const Json* model = gpu.find("model"); model != nullptr && model->is_string()) {
        std::string word = word_of(model);
        if (word.starts_with("nvidia_")) word.erase(0, 7);
        ++models[word];
      }
  for (const auto& [model, count] : models) name += "-" + std::to_string(count) + "x" + model;
  return name;
}

}  // namespace misfire
