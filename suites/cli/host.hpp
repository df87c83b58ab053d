#pragma once

#include <set>
#include <string>
#include <vector>

namespace misfire::cli {

/// What a trial may leave on the machine, looked for from outside of it: processes, named shared memory, mounts, temporary files.
/// Only what the trial itself made counts, so that trials may run beside each other and beside anything else.
class HostWatch {
 public:
  /// Looks at the machine as it is now, and makes the trial's directory for temporary files.
  /// @param directory  of the run's output; the temporary directory is made below it. @throws Error
  explicit HostWatch(const std::string& directory);
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;
  ~HostWatch();

  /// "NAME=value" by which the trial's processes and files are known: to be put into its environment.
  std::vector<std::string> environment() const;

  /// What the trial left, one line a thing ("process 4711 (misfire-dataloader)"), and removes it. Processes that are being
  /// ended get a second for it.
  std::vector<std::string> clean();

 private:
  std::string mark() const;

  std::string directory_, temporary_;
  std::string name_;  ///< of this trial: in its environment, and in what it names in /dev/shm
  std::set<int> processes_;
  std::set<std::string> mounts_;
};

}  // namespace misfire::cli
