// Goal: no failure file, however broken, does anything but be read or be refused with its name and a line.
// Method: the reader, over hostile bytes; what was read is composed into the plan of every arm.

#include <cstdlib>
#include <string>

#include "harness/error.hpp"
#include "harness/failure.hpp"
#include "suites/dataloader/metrics.hpp"
#include "tests/fuzz/input_file.hpp"

using namespace misfire;

namespace {

const Vocabulary& vocabulary() {
  static const Vocabulary words = {
      .scenarios = {{"dataloader", {"loading"}, dataloader::metrics(), [](std::string_view, const Json&) {}}},
      .faults = {{"mem.shm_size", nullptr}, {"cpu.affinity", nullptr}},
      .capabilities = {"userns", "two_cpus"},
  };
  return words;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::input_file(data, size, ".json");
  try {
    const Failure failure = read_failure(path, vocabulary());
    for (const Arm& arm : failure.arms) compose(failure, arm, std::nullopt, Sabotage::none);
    if (failure.dose) compose(failure, failure.arm(Role::faulty), failure.dose->neutral, Sabotage::condition);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_input || std::string(error.what()).find(path) == std::string::npos) std::abort();
  }
  return 0;
}
