// Goal: no record, however broken, does anything but be read or be refused with its name.
// Method: both readers, over hostile bytes.

#include <cstdlib>
#include <string>

#include "harness/error.hpp"
#include "results/record_reader.hpp"
#include "tests/fuzz/input_file.hpp"

using namespace misfire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::input_file(data, size, ".jsonl");
  const auto refuses = [&](auto&& read) {
    try {
      read(path);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_input || std::string(error.what()).find(path) == std::string::npos) std::abort();
    }
  };
  refuses([](const std::string& p) { read_run_record(p); });
  refuses([](const std::string& p) { read_trial_records(p); });
  return 0;
}
