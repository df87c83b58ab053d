#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "harness/trial.hpp"

namespace misfire {

/// Exit codes between subject and witness.
inline constexpr int subject_ok = 0, subject_failed = 10, subject_error = 70;

/// What the subject gets from the witness that starts it.
struct SubjectSetup {
  int socket = -1;               ///< SOCK_SEQPACKET to the witness
  int recorder_descriptor = -1;  ///< memfd
  Recorder recorder;
  Seed seed{0};
  std::string directory;
};

/// Runs a workload as the subject: prepare, run (which arms and proves the injections), recover and prove recovery.
/// @return one of the codes above; the reason has been told to the witness
int run_subject(const SubjectSetup& setup, Workload& workload, const TrialPlan& plan, std::span<const FaultEntry> faults);

/// Messages from subject to witness: one JSON object a datagram, "m" says what it is. The witness answers `look` and
/// `start_run` with one byte. `done` is the last: an exit without it is none that the workload came to by itself.
namespace message {
inline constexpr std::string_view look = "look", region = "region", note = "note", failed = "failed", error = "error",
                                  start_run = "start_run", end_run = "end_run", injection = "injection", done = "done";
inline constexpr std::size_t bytes_max = 128 << 10;  ///< of a datagram: what every kernel's default socket buffer takes
}  // namespace message

}  // namespace misfire
