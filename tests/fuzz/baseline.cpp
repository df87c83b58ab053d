// Goal: no baseline, however broken, does anything but be read or be refused with its name; what was read is written back the
// same and can be compared with. Method: reader, writer and comparison over hostile bytes.

#include "results/baseline.hpp"

#include <cstdlib>
#include <string>

#include "harness/error.hpp"
#include "tests/fuzz/input_file.hpp"

using namespace misfire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::input_file(data, size, ".json");
  Baseline baseline;
  try {
    baseline = read_baseline(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_input || std::string(error.what()).find(path) == std::string::npos) std::abort();
    return 0;
  }
  const std::string text = baseline_text(baseline),
                    again = fuzz::input_file(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), ".json");
  if (baseline_text(read_baseline(again)) != text) std::abort();
  if (baseline.sessions.empty()) return 0;
  BaselineSession now = baseline.sessions.back();
  now.started = "2026-12-31T00:00:00Z";
  baseline_report_text(compare_with_baseline(baseline, baseline.hardware_class, now));
  return 0;
}
