// Each capability is probed by doing a small form of what needs it, in a child process wherever the attempt changes the process
// that makes it, so that an answer is about this user on this machine now, and nothing stays behind.
#include "harness/capability.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>

#include "harness/cgroup.hpp"
#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/process.hpp"
#include "harness/text.hpp"
#include "harness/topology.hpp"
#include "misfire_config.hpp"

namespace misfire {
namespace {

using namespace std::chrono_literals;

struct Answer {
  bool present = false;
  std::string reason, remedy;
};

Answer yes(std::string reason) { return {true, std::move(reason), ""}; }
Answer no(std::string reason, std::string remedy) { return {false, std::move(reason), std::move(remedy)}; }

std::string error_text(int number) { return std::strerror(number); }

/// First line of a small file without its end, or "" when it cannot be read.
std::string file_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// What an attempt in a child process came to: "" for success, else what failed, and errno.
struct Attempt {
  std::string failed;
  int error = 0;
  std::string text;  ///< what the child wrote
  bool ok() const { return failed.empty(); }
};

/// The child's side of an attempt: where it says what happened.
class Trying {
 public:
  explicit Trying(int descriptor) : descriptor_(descriptor) {}
  /// Tells the parent and ends the child.
  [[noreturn]] void fail(const std::string& what, int error) const {
    say("!" + std::to_string(error) + " " + what);
    ::_exit(1);
  }
  void require(bool condition, const std::string& what) const {
    if (!condition) fail(what, errno);
  }
  void say(const std::string& text) const {
    [[maybe_unused]] const ssize_t ignored = ::write(descriptor_, text.data(), text.size());
  }

 private:
  int descriptor_;
};

/// Runs `body` in a child that is killed after `limit`, or with us.
Attempt attempt(const std::function<void(const Trying&)>& body, Duration limit = 5s) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {"pipe", errno, ""};
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    return {"fork", error, ""};
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::close(ends[0]);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);  // libraries talk
    ::dup2(null, STDOUT_FILENO);
    ::dup2(null, STDERR_FILENO);
    body(Trying(ends[1]));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said;
  bool late = false;
  for (const std::int64_t end = monotonic_ns() + limit.count();;) {
    pollfd ready{ends[0], POLLIN, 0};
    const std::int64_t left = end - monotonic_ns();
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left / 1'000'000) + 1) == 0) {
      late = true;
      break;
    }
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(ends[0], buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    said.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  if (late) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (late) return {"no answer within " + format_duration(limit), ETIMEDOUT, said};
  if (const auto mark = said.find('!'); mark != std::string::npos && WIFEXITED(status) && WEXITSTATUS(status) == 1) {
    char* end = nullptr;
    const long error = std::strtol(said.c_str() + mark + 1, &end, 10);
    return {end + 1, static_cast<int>(error), said.substr(0, mark)};
  }
  if (WIFSIGNALED(status)) return {"ended by signal " + std::to_string(WTERMSIG(status)), 0, said};
  return {"", 0, said};
}

void write_text(const Trying& trying, const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  trying.require(fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "write " + path);
  ::close(fd);
}

/// Into a user namespace as the same user, and whatever other namespaces are asked for.
void enter_user_namespace(const Trying& trying, int others) {
  const std::string uid = std::to_string(::geteuid()), gid = std::to_string(::getegid());
  trying.require(::unshare(CLONE_NEWUSER | others) == 0, "unshare(2)");
  write_text(trying, "/proc/self/setgroups", "deny");
  write_text(trying, "/proc/self/uid_map", uid + " " + uid + " 1");
  write_text(trying, "/proc/self/gid_map", gid + " " + gid + " 1");
}

void mount_private_tmpfs(const Trying& trying) {
  trying.require(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
  trying.require(::mount("misfire", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") == 0, "mount a tmpfs");
}

// Every user namespace is refused with EPERM to a process whose root is not the root of its mount namespace.
bool in_chroot() {
  struct stat ours {
  }, init{};
  if (::stat("/", &ours) == 0 && ::stat("/proc/1/root/", &init) == 0)
    return ours.st_dev != init.st_dev || ours.st_ino != init.st_ino;
  std::ifstream mounts("/proc/self/mountinfo");
  bool any = false;
  for (std::string line; std::getline(mounts, line); any = true)
    if (const auto fields = split(line, ' '); fields.size() > 4 && fields[4] == "/") return false;
  return any;
}

bool in_container() {
  return ::access("/.dockerenv", F_OK) == 0 || ::access("/run/.containerenv", F_OK) == 0 ||
         std::getenv("KUBERNETES_SERVICE_HOST") != nullptr || std::getenv("container") != nullptr;
}

bool seccomp_filtered() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Seccomp:")) return line.find('2') != std::string::npos;
  return false;
}

constexpr const char* container_remedy =
    "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined (docker, podman), or in the "
    "pod's securityContext with seccompProfile: {type: Unconfined} and appArmorProfile: {type: Unconfined}";

// Why user namespaces are refused, from the places where an administrator may have said so.
Answer explain_userns(const Attempt& refused) {
  const std::string what = refused.failed + ": " + error_text(refused.error);
  if (file_line("/proc/sys/user/max_user_namespaces") == "0")
    return no(what + " (user.max_user_namespaces is 0)", "sudo sysctl -w user.max_user_namespaces=15000");
  if (file_line("/proc/sys/kernel/unprivileged_userns_clone") == "0" && ::geteuid() != 0)
    return no(what + " (kernel.unprivileged_userns_clone is 0)", "sudo sysctl -w kernel.unprivileged_userns_clone=1");
  if (file_line("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" && ::geteuid() != 0)
    return no(
        what + " (kernel.apparmor_restrict_unprivileged_userns is 1: AppArmor allows them to profiled programs only)",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give misfire and its scenario programs an AppArmor "
        "profile with flags=(unconfined) and the rule 'userns,'");
  if (in_chroot())
    return no(what + " (this process lives in a chroot, where the kernel refuses user namespaces)",
              "enter the directory by pivot_root, as unshare --mount or a container does, instead of chroot");
  if (seccomp_filtered() || in_container())
    return no(what + " (a seccomp filter or the container's profile refuses it)", container_remedy);
  if (refused.error == ENOSPC || refused.error == EUSERS)
    return no(what + " (the limit of nested or of all user namespaces is reached)",
              "sudo sysctl -w user.max_user_namespaces=15000");
  if (refused.error == EINVAL || refused.error == ENOSYS)
    return no(what + " (this kernel has no user namespaces, or a sanitizer keeps a thread in this process)",
              "use a kernel built with CONFIG_USER_NS=y");
  return no(
      what,
      "ask the administrator which security module forbids user namespaces here (SELinux: user_namespace, AppArmor: userns)");
}

constexpr const char* masked_proc = "mount /proc";

Answer probe_userns() {
  const Attempt tried = attempt([](const Trying& trying) {
    enter_user_namespace(trying, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC);
    mount_private_tmpfs(trying);
    const pid_t first = ::fork();
    trying.require(first >= 0, "fork in the PID namespace");
    if (first == 0) {  // as every trial begins
      trying.require(::getpid() == 1, "be the first process of the PID namespace");
      trying.require(::mount("misfire", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") == 0, "mount /dev/shm");
      trying.require(::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0, masked_proc);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(first, &status, 0);
    if (status != 0) ::_exit(1);
  });
  if (tried.ok()) return yes("made user, mount, PID and IPC namespaces, with a /proc and a /dev/shm of their own");
  if (tried.failed == masked_proc && tried.error == EPERM)  // the kernel gives no full view of what is partly hidden outside
    return no(
        masked_proc + std::string(": ") + error_text(tried.error) + " (the container hides parts of /proc)",
        "start the container with --security-opt systempaths=unconfined (docker), --security-opt unmask=ALL (podman), or in the "
        "pod's securityContext with procMount: Unmasked and hostUsers: false");
  return explain_userns(tried);
}

Answer probe_root() {
  if (::geteuid() != 0) return no("running as user " + std::to_string(::geteuid()), "run as root (sudo)");
  const Attempt tried = attempt([](const Trying& trying) {
    trying.require(::unshare(CLONE_NEWNS) == 0, "unshare(2) of the mount namespace");
    mount_private_tmpfs(trying);
  });
  if (tried.ok()) return yes("mounted a tmpfs in a mount namespace of its own, as root");
  return no(
      "root without its privileges: " + tried.failed + ": " + error_text(tried.error),
      "give the container CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN; securityContext: {capabilities: {add: [SYS_ADMIN]}})");
}

Answer probe_fuse() {
  const Attempt tried = attempt([](const Trying& trying) {
    enter_user_namespace(trying, CLONE_NEWNS);
    mount_private_tmpfs(trying);
    // The descriptor must be opened inside: the kernel compares the namespaces.
    const int fuse = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
    trying.require(fuse >= 0, "open /dev/fuse");
    trying.require(::mkdir("/tmp/mount", 0700) == 0, "make a directory");
    const std::string options = "fd=" + std::to_string(fuse) + ",rootmode=40000,user_id=" + std::to_string(::geteuid()) +
                                ",group_id=" + std::to_string(::getegid());
    trying.require(::mount("misfire", "/tmp/mount", "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0,
                   "mount a fuse file system");
  });
  if (tried.ok()) return yes("opened /dev/fuse and mounted a file system in a user namespace");
  const std::string what = tried.failed + ": " + error_text(tried.error);
  if (tried.failed == "open /dev/fuse") {
    if (tried.error == EACCES) return no(what, "sudo chmod 666 /dev/fuse (its mode on Debian and Ubuntu)");
    return no(what, "sudo modprobe fuse; in a container pass the device in (docker run --device /dev/fuse)");
  }
  if (tried.failed == "mount a fuse file system")
    return no(what, tried.error == ENODEV ? "sudo modprobe fuse"
                                          : "use Linux 4.18 or later, and outside of a container's AppArmor profile");
  Answer answer = explain_userns(tried);
  answer.reason = "no user namespace to mount it in: " + answer.reason;
  return answer;
}

Answer probe_two_cpus() {
  const std::vector<int> cpus = affinity_mask();
  const std::optional<double> quota = cpu_quota(control_group("cpu"));
  const std::string what = "may run on CPUs " + cpu_list_text(cpus) +
                           (quota ? ", with a quota of " + format_quantity(*quota, Unit::none) + " CPUs" : "");
  if (cpus.size() < 2)
    return no(what, "use a machine with two CPUs, or widen the affinity mask (taskset, cpuset, docker --cpuset-cpus)");
  if (quota && *quota < 1.99)
    return no(what, "raise the CPU quota of the control group to 2 (docker --cpus 2; resources.limits.cpu: 2)");
  return yes(what);
}

Answer probe_two_numa_nodes() {
  const Topology machine = Topology::of_this_machine();
  std::vector<int> nodes;
  for (const Topology::Node& node : machine.nodes)
    if (node.memory_bytes > 0 &&
        std::find(machine.allowed_nodes.begin(), machine.allowed_nodes.end(), node.id) != machine.allowed_nodes.end())
      nodes.push_back(node.id);
  if (nodes.size() < 2) {
    const bool hidden = machine.nodes.size() > 1;
    return no(
        hidden ? "of " + std::to_string(machine.nodes.size()) + " memory nodes this process may use only " + cpu_list_text(nodes)
               : "this machine has one memory node",
        hidden ? "widen the cpuset (docker --cpuset-mems)"
               : "use a machine with two sockets, or a virtual machine with two nodes (qemu -numa)");
  }
  for (int node : {nodes.front(), nodes.back()}) {
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* memory = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return no("mmap(2): " + error_text(errno), "free some memory");
    std::array<unsigned long, 64> mask{};
    constexpr std::size_t bits = 8 * sizeof(unsigned long);
    mask[static_cast<std::size_t>(node) / bits % mask.size()] = 1UL << (static_cast<std::size_t>(node) % bits);
    int landed = -1;
    int error = 0;
    if (::syscall(SYS_mbind, memory, page, MPOL_BIND, mask.data(), mask.size() * bits, 0) != 0) {
      error = errno;
    } else {
      *static_cast<volatile char*>(memory) = 1;
      if (::syscall(SYS_get_mempolicy, &landed, nullptr, 0, memory, MPOL_F_NODE | MPOL_F_ADDR) != 0) error = errno;
    }
    ::munmap(memory, page);
    if (error != 0)
      return no("bind a page to node " + std::to_string(node) + ": " + error_text(error),
                "in a container allow mbind(2) (docker run --cap-add SYS_NICE)");
    if (landed != node)
      return no("a page bound to node " + std::to_string(node) + " landed on node " + std::to_string(landed),
                "free memory on that node");
  }
  return yes("placed pages on memory nodes " + cpu_list_text(nodes));
}

Answer probe_memory_cgroup() {
  const std::optional<ControlGroup> own = control_group("memory");
  if (!own)
    return no("no control group hierarchy with a memory controller is mounted",
              "boot with cgroup_enable=memory, or start the container with its own (docker --cgroupns private)");
  const std::string limit_file = own->version == 2 ? "memory.max" : "memory.limit_in_bytes";
  // Below our own group; where the unified hierarchy hands the controller on beside us instead, below the group above.
  std::vector<std::string> parents = {own->directory};
  if (own->version == 2 && own->directory.size() > own->mount.size())
    parents.push_back(own->directory.substr(0, own->directory.rfind('/')));
  std::string refused;
  for (const std::string& parent : parents) {
    const std::string child = parent + "/misfire-probe-" + std::to_string(::getpid());
    if (::mkdir(child.c_str(), 0755) != 0) {
      refused = "make a group in " + parent + ": " + error_text(errno);
      continue;
    }
    const Attempt tried = attempt([&](const Trying& trying) {
      write_text(trying, child + "/" + limit_file, std::to_string(64 << 20));
      write_text(trying, child + "/cgroup.procs", "0");
    });
    for (int i = 0; i < 100 && ::rmdir(child.c_str()) != 0 && errno == EBUSY; ++i)
      ::usleep(1000);  // its member has only just ended
    if (tried.ok()) return yes("made a group in " + parent + ", limited its memory and put a process into it");
    refused = tried.failed + ": " + error_text(tried.error);
  }
  return no(
      refused,
      ::geteuid() == 0
          ? "mount the control groups writable (docker run --privileged, or --cgroupns private with a writable /sys/fs/cgroup)"
          : "run as root, or under 'systemd-run --user --scope -p Delegate=yes'");
}

struct Toolkit {
  std::string compiler;  ///< path of nvcc, "" for none
  int major = 0, minor = 0;
};

Toolkit find_toolkit() {
  Toolkit toolkit;
  toolkit.compiler = find_program("nvcc");
  const char* home = std::getenv("CUDA_HOME");
  for (const std::string& directory : {std::string(home != nullptr ? home : ""), std::string("/usr/local/cuda")})
    if (toolkit.compiler.empty() && !directory.empty() && ::access((directory + "/bin/nvcc").c_str(), X_OK) == 0)
      toolkit.compiler = directory + "/bin/nvcc";
  if (toolkit.compiler.empty()) return toolkit;
  const ProcessResult result = run_process({.argv = {toolkit.compiler, "--version"}, .timeout = 20s});
  if (const auto release = result.out.find("release "); result.exit_code == 0 && release != std::string::npos)
    std::sscanf(result.out.c_str() + release, "release %d.%d", &toolkit.major, &toolkit.minor);
  return toolkit;
}

std::string version_text(int major, int minor) { return std::to_string(major) + "." + std::to_string(minor); }

Answer probe_cuda_toolkit() {
  const Toolkit toolkit = find_toolkit();
  const std::string build = MISFIRE_HAVE_CUDA ? "; this build has the cuda device" : "; this build has no cuda device";
  if (toolkit.compiler.empty())
    return no("no nvcc in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin" + build,
              "install NVIDIA's CUDA Toolkit, or Debian's and Ubuntu's package nvidia-cuda-toolkit");
  if (toolkit.major == 0) return no(toolkit.compiler + " --version does not say a release", "reinstall the CUDA Toolkit");
  return yes(toolkit.compiler + " is release " + version_text(toolkit.major, toolkit.minor) + build);
}

// The version in the name of the user-space driver library ("libcuda.so.550.54.15").
std::string library_version(const char* path) {
  std::error_code error;
  const std::string name = std::filesystem::canonical(path, error).filename().string();
  const auto digits = name.find(".so.");
  return error || digits == std::string::npos ? "" : name.substr(digits + 4);
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ..." to "550.54.15".
std::string kernel_module_version() {
  for (const std::string& word : split(file_line("/proc/driver/nvidia/version"), ' '))
    if (!word.empty() && word.find_first_not_of("0123456789.") == std::string::npos && word.find('.') != std::string::npos)
      return word;
  return "";
}

Answer probe_gpu() {
  // In a child: a process that has called cuInit cannot use CUDA in the children that it forks, and trials are such children.
  const Attempt tried = attempt(
      [](const Trying& trying) {
        void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) trying.fail("load libcuda.so.1", 0);
        const auto function = [&]<class F>(const char* name, F*& pointer) {
          pointer = reinterpret_cast<F*>(::dlsym(library, name));
          if (pointer == nullptr) trying.fail(std::string("find ") + name + " in libcuda.so.1", 0);
        };
        int (*init)(unsigned) = nullptr;
        int (*driver_version)(int*) = nullptr;
        int (*count_devices)(int*) = nullptr;
        int (*device_name)(char*, int, int) = nullptr;
        int (*error_name)(int, const char**) = nullptr;
        function("cuInit", init);
        function("cuDriverGetVersion", driver_version);
        function("cuDeviceGetCount", count_devices);
        function("cuDeviceGetName", device_name);
        function("cuGetErrorName", error_name);
        const auto check = [&](int result, const std::string& call) {
          if (result == 0) return;
          const char* name = nullptr;
          error_name(result, &name);
          trying.fail(call + ": " + (name != nullptr ? name : "CUDA error"), result);
        };
        Dl_info info{};
        if (::dladdr(reinterpret_cast<void*>(init), &info) != 0 && info.dli_fname != nullptr)
          trying.say(library_version(info.dli_fname));
        trying.say("\n");
        check(init(0), "cuInit");
        int version = 0, count = 0;
        check(driver_version(&version), "cuDriverGetVersion");
        check(count_devices(&count), "cuDeviceGetCount");
        trying.say(std::to_string(version) + "\n" + std::to_string(count) + "\n");
        std::array<char, 256> name{};
        if (count > 0) check(device_name(name.data(), static_cast<int>(name.size()), 0), "cuDeviceGetName");
        trying.say(name.data());
      },
      60s);
  const std::vector<std::string> said = split(tried.text, '\n');
  const std::string library = said.empty() ? "" : said[0], module = kernel_module_version();
  if (!tried.ok()) {
    if (tried.failed == "load libcuda.so.1") {
      if (module.empty())
        return no("libcuda.so.1 is not installed and no NVIDIA kernel module is loaded",
                  "on a machine with an NVIDIA GPU install its driver; everything else runs without");
      return no("the NVIDIA kernel module " + module + " is loaded but libcuda.so.1 is not installed here",
                "install the driver's libcuda " + module +
                    "; in a container use the NVIDIA runtime (docker run --gpus all; resources.limits: "
                    "nvidia.com/gpu)");
    }
    std::string what = tried.failed;
    if (!library.empty()) what += " (library " + library + ", kernel module " + (module.empty() ? "not loaded" : module) + ")";
    if (!library.empty() && !module.empty() && library != module)
      return no(what + ": driver and library versions do not match",
                "reboot, or reload the nvidia kernel modules, so that both are " + library);
    if (tried.error == 100)
      return no(what,
                "pass a GPU in (docker run --gpus all), or see that CUDA_VISIBLE_DEVICES is not empty and nvidia-smi lists one");
    if (tried.error == 802) return no(what, "start the fabric manager: sudo systemctl start nvidia-fabricmanager");
    if (tried.error == 803) return no(what, "reboot, so that the kernel module and the libraries are of one driver");
    if (tried.error == ETIMEDOUT) return no(what, "look for Xid messages in dmesg; reset the GPU or reboot");
    return no(what, "see that nvidia-smi works, and dmesg for messages of NVRM");
  }
  const int version = said.size() > 1 ? std::atoi(said[1].c_str()) : 0, count = said.size() > 2 ? std::atoi(said[2].c_str()) : 0;
  if (count == 0)
    return no("the driver is there and sees no device", "pass a GPU in (docker run --gpus all), or unset CUDA_VISIBLE_DEVICES");
  const int major = version / 1000, minor = version % 1000 / 10;
  const std::string what = std::to_string(count) + " x " + (said.size() > 3 ? said[3] : "GPU") + ", driver " +
                           (library.empty() ? "" : library + " ") + "for CUDA " + version_text(major, minor);
  const Toolkit toolkit = MISFIRE_HAVE_CUDA ? find_toolkit() : Toolkit{};
  if (toolkit.major > major)
    return no(
        what + ", too old for the CUDA Toolkit " + version_text(toolkit.major, toolkit.minor) + " of this build",
        "install a driver for CUDA " + std::to_string(toolkit.major) + ", or build with CUDA Toolkit " + std::to_string(major));
  if (toolkit.major == major && toolkit.minor > minor)
    return yes(what + " (older than the CUDA Toolkit " + version_text(toolkit.major, toolkit.minor) +
               ": works but for its newest features)");
  return yes(what);
}

// First line of a program's output, for a reason.
std::string first_line(const std::string& text) { return text.substr(0, std::min(text.find('\n'), std::size_t{200})); }

Answer probe_mpi() {
  const std::string launcher = find_program("mpirun");
  const std::string package = "sudo apt-get install openmpi-bin libopenmpi-dev";
  if (launcher.empty()) return no("no mpirun in PATH", package);
  const ProcessResult version = run_process({.argv = {launcher, "--version"}, .timeout = 20s});
  if (version.exit_code != 0) return no(launcher + " --version failed: " + first_line(version.err), package);
  const TemporaryDirectory directory;  // Open MPI keeps its sockets in it
  const ProcessResult launch = run_process(
      {.argv = {launcher, "-n", "2", "true"},
       .environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_rmaps_base_oversubscribe=1",
                       "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe", "TMPDIR=" + directory.path()},
       .timeout = 30s});
  if (launch.exit_code != 0)
    return no("launching two processes with " + launcher +
                  (launch.timed_out ? " took too long" : " failed: " + first_line(launch.err + launch.out)),
              "see that 'mpirun -n 2 true' works");
  return yes(first_line(version.out) + " launched two processes" + (MISFIRE_HAVE_MPI ? "" : "; this build has no MPI"));
}

Answer probe_fio() {
  const std::string program = find_program("fio");
  if (program.empty()) return no("no fio in PATH", "sudo apt-get install fio");
  const TemporaryDirectory directory;
  const ProcessResult result = run_process(
      {.argv = {program, "--name=probe", "--ioengine=sync", "--rw=write", "--size=64k", "--directory=" + directory.path()},
       .timeout = 30s});
  if (result.exit_code != 0)
    return no("a job of 64 KiB failed: " + first_line(result.err + result.out), "see that 'fio --name=x --size=64k' works");
  const ProcessResult version = run_process({.argv = {program, "--version"}, .timeout = 20s});
  return yes(first_line(version.out) + " wrote 64 KiB");
}

Answer probe_perf_event() {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  const int fd = static_cast<int>(::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
  if (fd < 0) {
    const int error = errno;
    const std::string what = "perf_event_open(2) of instructions: " + error_text(error);
    if (error == ENOENT || error == EOPNOTSUPP || error == ENODEV)
      return no(what + " (no hardware counters, as in most virtual machines)",
                "use a physical machine, or a virtual one with a virtual PMU");
    const std::string paranoid = file_line("/proc/sys/kernel/perf_event_paranoid");
    if (error == EACCES || (error == EPERM && !seccomp_filtered()))
      return no(what + " (kernel.perf_event_paranoid is " + paranoid + ")", "sudo sysctl -w kernel.perf_event_paranoid=1");
    if (error == EPERM) return no(what, container_remedy);
    return no(what, "use a kernel built with CONFIG_PERF_EVENTS=y");
  }
  std::uint64_t count = 0;
  const bool counted = ::read(fd, &count, sizeof count) == sizeof count && count > 0;
  ::close(fd);
  if (!counted)
    return no("a counter of instructions opened, but counted none",
              "use a physical machine, or a virtual one with a virtual PMU");
  return yes("counted this process's instructions");
}

Answer probe_photographs() {
  namespace fs = std::filesystem;
  const std::string folder = "/usr/share/backgrounds";
  std::error_code error;
  std::size_t count = 0;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string extension = to_lower(it->path().extension().string());
    if (extension != ".jpg" && extension != ".jpeg") continue;
    std::array<char, 3> start{};
    std::ifstream(it->path(), std::ios::binary).read(start.data(), start.size());
    if (start == std::array<char, 3>{'\xff', '\xd8', '\xff'}) ++count;
  }
  if (count > 0) return yes(std::to_string(count) + " JPEG files under " + folder);
  return no("no JPEG files under " + folder, "sudo apt-get install lomiri-wallpapers mate-backgrounds");
}

struct Entry {
  std::string_view name, unlocks;
  Answer (*probe)();
};

constexpr Entry entries[] = {
    {"userns", "private mounts, PIDs and limits for every trial without root; failures with a /dev/shm of their own",
     probe_userns},
    {"root", "faults that change the machine itself", probe_root},
    {"photographs", "images made from real photographs; without them synthetic ones are used", probe_photographs},
    {"two_cpus", "failures in which two processes must run at once", probe_two_cpus},
    {"two_numa_nodes", "measuring memory on a remote node", probe_two_numa_nodes},
    {"memory_cgroup", "limits of memory for a group of processes, and the kernel's kill at them", probe_memory_cgroup},
    {"fuse", "slow and failing file systems", probe_fuse},
    {"perf_event", "hardware counters: cache misses, instructions", probe_perf_event},
    {"gpu", "the cuda device and tests labelled gpu", probe_gpu},
    {"cuda_toolkit", "building the cuda device", probe_cuda_toolkit},
    {"mpi", "ranks and collectives through MPI", probe_mpi},
    {"fio", "fio as the reference for storage figures", probe_fio},
};

}  // namespace

std::vector<std::string_view> capability_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  return names;
}

Capability probe_capability(std::string_view name) {
  for (const Entry& entry : entries) {
    if (entry.name != name) continue;
    Answer answer;
    try {
      answer = entry.probe();
    } catch (const Error& error) {
      answer = no(error.what(), "see the message");
    }
    return {entry.name, answer.present, std::move(answer.reason), std::move(answer.remedy), entry.unlocks};
  }
  throw Error(ErrorCode::usage, "unknown capability '" + std::string(name) + "'" + did_you_mean(name, capability_names()));
}

const Capability& capability(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string_view, Capability> found;  // by the names of the entries, which last
  const std::scoped_lock lock(mutex);
  if (const auto known = found.find(name); known != found.end()) return known->second;
  Capability probed = probe_capability(name);
  return found.emplace(probed.name, std::move(probed)).first->second;
}

}  // namespace misfire
