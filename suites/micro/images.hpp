#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace misfire::micro {

/// The files that images are decoded from: the small photographs of MISFIRE_DATA where they have been prepared, else synthetic
/// images of like cost. @param origin which of them, in words
std::vector<std::vector<std::uint8_t>> images(std::string& origin);

}  // namespace misfire::micro
