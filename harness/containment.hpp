#pragma once

#include <functional>
#include <string>
#include <vector>

namespace misfire {

/// How the processes of a trial are kept together, best first.
enum class Containment {
  user_namespace,  ///< user, mount, PID and IPC namespaces of our own: nothing outlives the first process in them
  namespaces,      ///< the same without a user namespace, as real root
  subreaper,       ///< no namespaces: a guard gets the orphans and kills them; parents' deaths are passed on by PDEATHSIG
};
std::string_view containment_name(Containment containment) noexcept;

/// What the contained process is told.
struct Contained {
  Containment kind = Containment::subreaper;
  std::vector<std::string> refused;  ///< why each better one could not be had
  bool private_shm = false;          ///< /dev/shm is a tmpfs of the trial alone
  std::string directory;             ///< without namespaces: a private directory, removed afterwards
};

/// Environment variable that holds, without namespaces, the first part of the name of every file that may be made in /dev/shm:
/// such files are removed afterwards. Where it is set already the name begins with that, so that who set it can look for what is
/// left.
inline constexpr const char* shm_prefix_variable = "MISFIRE_SHM_PREFIX";

/// Source of the trial's own tmpfs on /dev/shm, as /proc/self/mountinfo shows it.
inline constexpr const char* private_shm_source = "misfire-shm";

/// Runs `body` in a child process that is the first in the best containment this machine allows, with private /proc and /dev/shm
/// where there are namespaces, and waits for it. Whatever the child leaves is killed. When the caller dies, so does everything.
///
/// Own user id and group id are mapped to themselves: programs that refuse root behave as outside.
/// Call from a process with one thread.
/// @return exit status of `body`, or 128 + signal when it was killed
int run_contained(const std::function<int(const Contained&)>& body);

/// Arranges that the kernel kills this process when its parent dies, and ends it now if that has happened already.
/// @param parent_alive  readable end of a pipe whose other end only the parent holds
void die_with_parent(int parent_alive);

}  // namespace misfire
