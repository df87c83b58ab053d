#include "kernels/devices.hpp"

#include <string>

#include "harness/error.hpp"
#include "harness/text.hpp"
#include "misfire_config.hpp"

namespace misfire {

#define MISFIRE_DEVICE(name) std::unique_ptr<Device> make_##name##_device(const DeviceOptions& options);
#include "kernels/catalog.inc"
#undef MISFIRE_DEVICE

namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Device> (*make)(const DeviceOptions& options);
};

constexpr Entry catalog[] = {
#define MISFIRE_DEVICE(name) {#name, &make_##name##_device},
#include "kernels/catalog.inc"
#undef MISFIRE_DEVICE
};

}  // namespace

std::unique_ptr<Device> make_device(std::string_view name, const DeviceOptions& options) {
  for (const Entry& entry : catalog) {
    if (entry.name == name) return entry.make(options);
  }
  if (name == "cuda") {
    throw Error(ErrorCode::unsupported,
                "device 'cuda': this build has no CUDA; install the CUDA Toolkit and configure with MISFIRE_WITH_CUDA=ON");
  }
  const std::vector<std::string_view> names = device_names();
  throw Error(ErrorCode::not_found, "no device is named '" + std::string(name) + "'" + did_you_mean(name, names));
}

std::vector<std::string_view> device_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : catalog) names.push_back(entry.name);
  return names;
}

}  // namespace misfire
