#pragma once

#include <cstdint>

#include "harness/seed.hpp"

namespace misfire::dataloader {

/// A rectangle of an image in whole pixels; (0, 0) is the top left corner.
struct CropBox {
  int x = 0, y = 0, width = 0, height = 0;
  friend bool operator==(const CropBox&, const CropBox&) = default;
};

/// How a random resized crop is drawn.
struct CropRule {
  double scale_min = 0.08, scale_max = 1.0;             ///< share of the image's area
  double ratio_min = 3.0 / 4.0, ratio_max = 4.0 / 3.0;  ///< width over height, drawn uniformly in its logarithm
};

/// A random resized crop: ten tries at an area and a ratio that fit, else the largest centred box whose ratio is allowed.
/// Draws the same box for the same stream state, image size and rule.
/// @source torchvision.transforms.RandomResizedCrop.get_params (pytorch/vision, torchvision/transforms/transforms.py)
CropBox random_resized_crop(Stream& stream, int image_width, int image_height, const CropRule& rule = {});

/// The largest centred box with the ratio of the output, reduced by `margin`: what "resize the shorter side to 256, crop 224 from
/// the centre" keeps is margin 224/256.
CropBox centre_crop(int image_width, int image_height, int out_width, int out_height, double margin = 224.0 / 256.0);

/// What happens to one sample in one epoch.
struct Augmentation {
  CropBox box;
  bool flip = false;
};

/// Crop and horizontal flip (one in two) of one sample: a pure function of seed, epoch and sample, whichever worker draws it.
Augmentation draw_augmentation(Seed seed, std::uint64_t epoch, std::uint64_t sample, int image_width, int image_height,
                               const CropRule& rule = {});

}  // namespace misfire::dataloader
