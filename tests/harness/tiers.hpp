#pragma once

// Makes this machine poorer for the calling process, so that each way of containing a trial can be tried on one machine.

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <string>

#include "harness/containment.hpp"

namespace misfire {

inline bool write_line(const char* path, const std::string& text) {
  const int descriptor = open(path, O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool written = write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(descriptor);
  return written;
}

/// Enters a user namespace in which the kernel refuses every containment better than `best`. Cannot be undone: for a child
/// process.
/// @return false where that cannot be arranged (or `best` cannot be had)
inline bool allow_at_best(Containment best) {
  if (best == Containment::user_namespace) return true;
  const uid_t uid = getuid();
  const gid_t gid = getgid();
  if (unshare(CLONE_NEWUSER) != 0) return false;
  if (!write_line("/proc/self/setgroups", "deny") ||
      !write_line("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1") ||
      !write_line("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1"))
    return false;
  if (!write_line("/proc/sys/user/max_user_namespaces", "0")) return false;
  if (best == Containment::namespaces) return uid == 0;
  return write_line("/proc/sys/user/max_mnt_namespaces", "0");
}

inline constexpr Containment all_containments[] = {Containment::user_namespace, Containment::namespaces, Containment::subreaper};

}  // namespace misfire
