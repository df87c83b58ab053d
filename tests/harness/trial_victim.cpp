// What trial_kill_test kills: a driver that runs a holder that runs one trial which would last for ever.

#include "harness/process.hpp"
#include "tests/harness/tiers.hpp"
#include "tests/harness/tiny.hpp"

int main(int argc, char** argv) {
  using namespace misfire;
  if (argc != 4) return 64;
  const std::string role = argv[1], tier = argv[2], record = argv[3];
  if (role == "driver") {
    for (const Containment allowed : all_containments)
      if (containment_name(allowed) == tier && !allow_at_best(allowed)) return 77;
    return run_process({.argv = {self_executable(), "holder", tier, record}}).exit_code;
  }
  TrialOptions options;
  options.record = record;
  options.deadline = std::chrono::seconds(60);
  return static_cast<int>(run_planned_trial(tiny::scenario(), tiny::faults, tiny::plan("escape_hang", 3), options));
}
