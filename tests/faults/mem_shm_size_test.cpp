#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "harness/files.hpp"
#include "tests/faults/apply.hpp"

namespace misfire {
namespace {

constexpr std::uint64_t mib = 1 << 20;

std::uint64_t total() {
  struct statvfs seen {};
  return statvfs("/dev/shm", &seen) == 0 ? static_cast<std::uint64_t>(seen.f_blocks) * seen.f_frsize : 0;
}

/// What a program finds: the size, and whether 12 MiB can be had.
Json look() {
  const int file = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
  const int error = posix_fallocate(file, 0, 12 * mib);
  close(file);
  return Json::object({{"total", total()}, {"error", error}});
}

TEST("armed, /dev/shm is as small as asked, and is as before afterwards") {
  const std::string mounts = read_whole_file("/proc/self/mountinfo");
  const Applied applied = apply("mem.shm_size", Json::object({{"size", "8MiB"}}), true, look, true);
  CHECK_EQ(applied.error, "");
  CHECK(applied.proved());
  for (const char* phase : {"armed", "observed", "recovered", "recovery_proved"}) CHECK(applied.holds(phase));
  CHECK_EQ(applied.seen.at("total").as_uint(), 8 * mib);
  CHECK_EQ(applied.seen.at("error").as_int(), ENOSPC);
  CHECK(applied.seen_after.at("total").as_uint() > 12 * mib);
  CHECK_EQ(applied.seen_after.at("error").as_int(), 0);
  CHECK_EQ(read_whole_file("/proc/self/mountinfo"), mounts);  // outside nothing happened
}

TEST("disarmed, the mechanism is there without effect") {
  const Applied applied = apply("mem.shm_size", Json::object({{"size", "8MiB"}}), false, look, true);
  CHECK(applied.proved());
  CHECK(!applied.injection.at("armed").as_bool());
  CHECK(applied.seen.at("total").as_uint() > 12 * mib);
  CHECK_EQ(applied.seen.at("error").as_int(), 0);
}

TEST("one that silently does nothing is not proved") {
  const Applied applied =
      apply("mem.shm_size", Json::object({{"size", "8MiB"}}), true, look, true, [] { umount2("/dev/shm", MNT_DETACH); });
  CHECK_EQ(applied.error, "");
  CHECK(!applied.proved());
  CHECK(!applied.holds("observed"));
}

TEST("one that stays is not proved") {
  // A second mount on top: recovery takes that one away and the small one shows.
  const Applied applied = apply("mem.shm_size", Json::object({{"size", "8MiB"}}), true, look, true,
                                [] { CHECK_EQ(mount("again", "/dev/shm", "tmpfs", 0, "size=8M"), 0); });
  CHECK(!applied.proved());
  CHECK(applied.holds("observed"));
  CHECK(!applied.holds("recovery_proved"));
}

TEST("a /dev/shm that others use is left alone") {
  const pid_t child = fork();  // with mounts of its own, so that nothing happens to us if it does not hold
  if (child == 0) {
    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) _exit(77);
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(77);
    const std::string mounts = read_whole_file("/proc/self/mountinfo");
    Injection injection(make_fault("mem.shm_size"), true);
    injection.arm({});
    injection.prove({});
    injection.recover({});
    injection.prove_recovery({});
    const bool refused = injection.to_json().dump().find("is not the trial's own") != std::string::npos;
    _exit(refused && !injection.proved() && read_whole_file("/proc/self/mountinfo") == mounts ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) SKIP("no mount namespaces here");
  CHECK_EQ(status, 0);
}

TEST("a size that is no size is refused") {
  const auto fault = make_fault("mem.shm_size");
  CHECK_THROWS(fault->options().set(Json::object({{"size", "8 moons"}})), "size");
  CHECK_THROWS(fault->options().set(Json::object({{"sise", "8MiB"}})), "size");
}

}  // namespace
}  // namespace misfire
