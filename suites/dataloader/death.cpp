#include "suites/dataloader/death.hpp"

#include <cmath>
#include <csignal>
#include <cstring>

namespace misfire::dataloader {
namespace {

std::string cause_of_bus_error(double used) {
  if (used < 0) return "; how full /dev/shm was is not known: look there first, then for a mapped file that was cut short";
  const std::string percent = std::to_string(std::lround(used * 100)) + " %";
  if (used >= 0.95)
    return "; /dev/shm is " + percent +
           " full: give it more space, keep fewer batches outstanding (num_workers x prefetch_factor), or reserve them";
  return "; /dev/shm has room (" + percent + " used): a mapped file was cut short, or memory is bad";
}

std::string cause_of_kill(const std::optional<std::uint64_t>& oom_kills) {
  if (!oom_kills) return "; if nobody did it by hand, look for the kernel's OOM killer or a memory limit";
  if (*oom_kills == 0) return "; the control group counts no kill by the OOM killer: somebody sent the signal";
  return "; the control group counts " + std::to_string(*oom_kills) + (*oom_kills == 1 ? " kill" : " kills") +
         " by the OOM killer: give it more memory, or use fewer workers";
}

}  // namespace

std::string describe(const Death& death) {
  std::string text = "worker " + std::to_string(death.worker) + " (pid " + std::to_string(death.pid) + ") ";
  text += death.signal != 0 ? "was killed by signal " + std::to_string(death.signal) + " (" + strsignal(death.signal) + ")"
                            : "exited with " + std::to_string(death.exit_code);
  if (death.sample >= 0)
    text += " while loading sample " + std::to_string(death.sample) + " (" + death.sample_name + ") of batch " +
            std::to_string(death.batch);
  if (death.signal == SIGBUS) text += cause_of_bus_error(death.shm_used);
  if (death.signal == SIGKILL) text += cause_of_kill(death.oom_kills);
  return text;
}

}  // namespace misfire::dataloader
