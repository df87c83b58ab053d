#pragma once

#include <cstdint>
#include <vector>

#include "harness/seed.hpp"

namespace misfire::dataloader {

/// What a made-up image should cost.
struct SyntheticTarget {
  int width = 500, height = 375;
  double bytes_per_pixel = 0.2;  ///< of the encoded file; about 0.08 to 0.5 can be had
  int quality = 92;
};

/// An image for machines without photographs: smooth shading in octaves, objects with hard edges, and fine texture whose
/// strength varies over the image and is chosen so that the encoded file has the size wanted.
///
/// Models what a photograph costs to read and to decode (bytes, symbols, blocks with few and with many coefficients); not what
/// it shows.
/// @param jpeg  the file; its size is within a few per cent of the target
void make_synthetic_jpeg(Stream stream, const SyntheticTarget& target, std::vector<std::uint8_t>& jpeg);

}  // namespace misfire::dataloader
