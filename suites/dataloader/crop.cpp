#include "suites/dataloader/crop.hpp"

#include <algorithm>
#include <cmath>

#include "harness/error.hpp"

namespace misfire::dataloader {

CropBox random_resized_crop(Stream& stream, int image_width, int image_height, const CropRule& rule) {
  MISFIRE_ASSERT(image_width > 0 && image_height > 0);
  const double area = static_cast<double>(image_width) * image_height;
  const double log_min = std::log(rule.ratio_min), log_max = std::log(rule.ratio_max);
  const auto rounded = [](double value) { return static_cast<int>(std::lround(value)); };
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * (rule.scale_min + (rule.scale_max - rule.scale_min) * stream.uniform());
    const double ratio = std::exp(log_min + (log_max - log_min) * stream.uniform());
    const int width = rounded(std::sqrt(target * ratio));
    const int height = rounded(std::sqrt(target / ratio));
    if (width < 1 || width > image_width || height < 1 || height > image_height) continue;
    const auto y = static_cast<int>(stream.below(static_cast<std::uint64_t>(image_height - height + 1)));
    const auto x = static_cast<int>(stream.below(static_cast<std::uint64_t>(image_width - width + 1)));
    return {.x = x, .y = y, .width = width, .height = height};
  }
  const double ratio = static_cast<double>(image_width) / image_height;
  int width = image_width, height = image_height;
  if (ratio < rule.ratio_min) height = std::clamp(rounded(width / rule.ratio_min), 1, image_height);
  if (ratio > rule.ratio_max) width = std::clamp(rounded(height * rule.ratio_max), 1, image_width);
  return {.x = (image_width - width) / 2, .y = (image_height - height) / 2, .width = width, .height = height};
}

CropBox centre_crop(int image_width, int image_height, int out_width, int out_height, double margin) {
  MISFIRE_ASSERT(image_width > 0 && image_height > 0 && out_width > 0 && out_height > 0);
  // The whole image, less what sticks out of the output's ratio.
  const double fit =
      std::min(static_cast<double>(image_width) / out_width, static_cast<double>(image_height) / out_height) * margin;
  const int width = std::clamp(static_cast<int>(std::lround(out_width * fit)), 1, image_width);
  const int height = std::clamp(static_cast<int>(std::lround(out_height * fit)), 1, image_height);
  return {.x = (image_width - width) / 2, .y = (image_height - height) / 2, .width = width, .height = height};
}

Augmentation draw_augmentation(Seed seed, std::uint64_t epoch, std::uint64_t sample, int image_width, int image_height,
                               const CropRule& rule) {
  Stream stream = seed.stream("augmentation").substream(epoch).substream(sample);
  Augmentation result;
  result.box = random_resized_crop(stream, image_width, image_height, rule);
  result.flip = stream.below(2) == 1;
  return result;
}

}  // namespace misfire::dataloader
