#pragma once

#include <cstdint>
#include <vector>

namespace misfire::test {

/// What the encoder of a test image does beyond the ordinary. Written with libjpeg directly; input is a smooth pattern.
struct Encoding {
  int width = 64, height = 48;
  int components = 3;  // 1 grey, 3 RGB, 4 CMYK
  bool ycck = false;   // CMYK stored as YCCK
  bool adobe = true;   // CMYK: with Adobe's marker (0 is full ink)
  bool progressive = false;
  bool full_chroma = false;  // 4:4:4
  int restart_interval = 0;
};
std::vector<std::uint8_t> encode(const Encoding& encoding);

}  // namespace misfire::test
