// Small shared memory: /dev/shm of a given size, as a container runtime gives it (64 MiB unless asked otherwise).
//
// Models a tmpfs whose size is too small for what is put there. Mounted over /dev/shm in the trial's own mount namespace; it goes
// with that namespace. Not a memory limit of a control group (tmpfs pages count there too), not a lack of memory on the host.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/containment.hpp"
#include "harness/error.hpp"
#include "harness/fault.hpp"
#include "harness/text.hpp"

namespace misfire {
namespace {

constexpr const char* shm = "/dev/shm";

std::uint64_t total_bytes() {
  struct statvfs seen {};
  if (statvfs(shm, &seen) != 0) throw system_error("read the size of", shm, errno);
  return static_cast<std::uint64_t>(seen.f_blocks) * seen.f_frsize;
}

/// Whether what lies on /dev/shm now was mounted for this trial: then nobody else sees what is mounted over it.
bool on_private_shm() {
  std::ifstream mounts("/proc/self/mountinfo");
  bool ours = false;
  for (std::string line; std::getline(mounts, line);) {  // "... <root> <mount point> <options> ... - <type> <source> <options>"
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() > 4 && words[4] == shm && words.end() - dash > 2) ours = dash[2] == private_shm_source;
  }
  return ours;
}

/// errno of reserving `bytes` in a new, unnamed file in /dev/shm; 0 when it could be had. Given back at once.
int try_to_reserve(std::uint64_t bytes) {
  const int descriptor = open(shm, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) return errno;
  const int error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  close(descriptor);
  return error;
}

class SharedMemorySize : public Fault {
 public:
  FaultInfo info() const override {
    return {"mem.shm_size",
            "/dev/shm of a given size",
            "A container's default of 64 MiB, or any tmpfs too small for the batches that cross through it.",
            "A control group's memory limit, or a host that is out of memory.",
            {"userns"}};
  }
  OptionTable options() override {
    return OptionTable("", {{"size", &size_, "size of the trial's /dev/shm", Unit::bytes, 4096, 1e15}});
  }

  std::vector<Evidence> arm(const Victim&, bool armed) override {
    if (!on_private_shm())
      throw Error(ErrorCode::unsupported,
                  "mem.shm_size: /dev/shm is not the trial's own; it needs a mount namespace (misfire doctor: userns)");
    before_ = total_bytes();
    // Disarmed: the same mechanism, with the size that was there.
    const std::string data = "mode=1777,size=" + std::to_string(armed ? size_ : before_);
    if (mount("misfire-shm-size", shm, "tmpfs", MS_NOSUID | MS_NODEV, data.c_str()) != 0)
      throw Error(ErrorCode::unsupported, std::string("mem.shm_size: mount a tmpfs on /dev/shm: ") + std::strerror(errno) +
                                              "; needs a mount namespace of the trial's own (misfire doctor: userns)");
    mounted_ = true;
    const std::uint64_t now = total_bytes();
    const bool right = armed ? now <= size_ + 65536 && now + 65536 >= size_ : now + 65536 >= before_;
    return {{Phase::armed, "statvfs(/dev/shm) total bytes", Json(now), Json(armed ? size_ : before_), right}};
  }

  std::vector<Evidence> probe(const Victim&, bool armed) override {
    std::vector<Evidence> evidence;
    // Through the same path: reserve one page more than there is.
    const std::uint64_t more_than_size = size_ + 4096;
    const int error = try_to_reserve(more_than_size);
    if (armed) {
      evidence.push_back({Phase::observed, "reserve one page more than the size in /dev/shm", Json(std::strerror(error)),
                          Json(std::strerror(ENOSPC)), error == ENOSPC});
      const int within = try_to_reserve(size_ / 2);
      evidence.push_back({Phase::observed, "control probe: reserve half of it in /dev/shm", Json(std::strerror(within)),
                          Json(std::strerror(0)), within == 0});
    } else {
      evidence.push_back({Phase::observed, "disarmed: the same reservation fits in /dev/shm", Json(std::strerror(error)),
                          Json(std::strerror(0)), error == 0});
    }
    // A path without the fault: memory of the kernel's own tmpfs, which this mount does not bound.
    const int elsewhere = memfd_create("misfire-probe", MFD_CLOEXEC);
    const int other = elsewhere < 0 ? errno : posix_fallocate(elsewhere, 0, static_cast<off_t>(more_than_size));
    if (elsewhere >= 0) close(elsewhere);
    evidence.push_back({Phase::observed, "control probe: the same reservation outside /dev/shm (memfd)",
                        Json(std::strerror(other)), Json(std::strerror(0)), other == 0});
    return evidence;
  }

  std::vector<Evidence> recover(const Victim&) override {
    if (!std::exchange(mounted_, false)) return {};
    const int error = umount2(shm, MNT_DETACH) == 0 ? 0 : errno;
    return {{Phase::recovered, "unmount /dev/shm", Json(std::strerror(error)), Json(std::strerror(0)), error == 0}};
  }

  std::vector<Evidence> probe_recovery(const Victim&) override {
    const std::uint64_t now = total_bytes();
    const int error = try_to_reserve(size_ + 4096);
    return {{Phase::recovery_proved, "statvfs(/dev/shm) total bytes", Json(now), Json(before_), now == before_},
            {Phase::recovery_proved, "reserve one page more than the size in /dev/shm", Json(std::strerror(error)),
             Json(std::strerror(0)), error == 0}};
  }

 private:
  std::uint64_t size_ = 64ULL << 20;
  std::uint64_t before_ = 0;
  bool mounted_ = false;
};

}  // namespace

std::unique_ptr<Fault> make_mem_shm_size() { return std::make_unique<SharedMemorySize>(); }

}  // namespace misfire
