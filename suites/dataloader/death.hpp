#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace misfire::dataloader {

/// What is known of a worker process that ended although it should not have.
struct Death {
  int worker = -1;
  int pid = -1;
  int signal = 0;                               ///< 0 when it exited
  int exit_code = 0;                            ///< when signal is 0
  std::int64_t sample = -1;                     ///< that it was loading; -1: none
  std::int64_t batch = -1;                      ///< that the sample belongs to
  std::string sample_name = {};                 ///< path, for people
  double shm_used = -1;                         ///< used part of /dev/shm when SIGBUS came; negative when that is not known
  std::optional<std::uint64_t> oom_kills = {};  ///< that the control group counted while the workers ran
};

/// One line: who, how, at what, and the cause as far as the evidence goes. SIGBUS alone proves no full /dev/shm, nor SIGKILL the
/// OOM killer.
std::string describe(const Death& death);

class WorkerDied : public std::runtime_error {
 public:
  explicit WorkerDied(const Death& death)
      : std::runtime_error(describe(death)),
        worker(death.worker),
        pid(death.pid),
        signal(death.signal),
        exit_code(death.exit_code),
        sample(death.sample),
        batch(death.batch) {}
  int worker, pid;
  int signal;                  ///< 0 when it exited
  int exit_code;               ///< when signal is 0
  std::int64_t sample, batch;  ///< -1 when it was loading none
};

}  // namespace misfire::dataloader
