// Goal: no tar shard, however broken, does anything but be listed and read, or be refused with its name.
// Method: the index of the archive and every sample in it, over hostile bytes.

#include <cstdlib>
#include <string>
#include <vector>

#include "harness/error.hpp"
#include "storage/sample_source.hpp"
#include "tests/fuzz/input_file.hpp"

using namespace misfire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::input_file(data, size, ".tar");
  try {
    const auto samples = open_samples("tar_shards", path);
    std::vector<std::uint8_t> buffer;
    for (std::size_t i = 0; i < samples->size(); ++i) {
      if (samples->read(i, buffer).size() > size || samples->name(i).empty()) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_input || std::string(error.what()).find(path) == std::string::npos) std::abort();
  }
  return 0;
}
