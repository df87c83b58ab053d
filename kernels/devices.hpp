#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "harness/device.hpp"

namespace misfire {

/// Opens a device by its name in kernels/catalog.inc: "host", and "cuda" where it was built in. Fork first: `host` starts no
/// thread before its first queue is made, but a CUDA context does not survive a fork at all.
/// @throws Error{not_found} for an unknown name, with the nearest; Error{unsupported} where the machine cannot (no GPU, driver
/// too
///         old, no such CPU); Error{no_space} when the arena cannot be had
std::unique_ptr<Device> make_device(std::string_view name, const DeviceOptions& options = {});

std::vector<std::string_view> device_names();

}  // namespace misfire
