#include "suites/dataloader/synthetic.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "harness/error.hpp"
#include "suites/dataloader/jpeg.hpp"

namespace misfire::dataloader {
namespace {

struct Plane {
  Plane(int plane_width, int plane_height)
      : width(plane_width), height(plane_height), values(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}
  float* row(int y) { return values.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width); }
  const float* row(int y) const { return values.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width); }
  int width, height;
  std::vector<float> values;
};

// Draws quick enough for millions of pixels; seeded from the stream. (xorshift64*, Vigna 2016.)
class Draws {
 public:
  explicit Draws(Stream& stream) : state_(stream() | 1) {}
  float next() {  // uniform in [-1, 1)
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<float>(static_cast<std::int32_t>((state_ * 0x2545F4914F6CDD1DULL) >> 32)) * 0x1.0p-31F;
  }

 private:
  std::uint64_t state_;
};

/// Adds noise that is smooth below `cell` pixels: random values at the corners of cells, interpolated between them.
void add_octave(Plane& plane, int cell, float amplitude, Stream& stream) {
  Draws draws(stream);
  const int columns = plane.width / cell + 2;
  std::vector<float> above(static_cast<std::size_t>(columns)), below(above.size()), mixed(above.size());
  const auto draw_row = [&](std::vector<float>& corners) {
    for (float& corner : corners) corner = amplitude * draws.next();
  };
  draw_row(below);
  for (int y = 0; y < plane.height; ++y) {
    if (y % cell == 0) {
      above.swap(below);
      draw_row(below);
    }
    const float down = static_cast<float>(y % cell) / static_cast<float>(cell);
    for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] = above[i] + (below[i] - above[i]) * down;
    float* const row = plane.row(y);
    const float step = 1.0F / static_cast<float>(cell);
    for (int left = 0, i = 0; left < plane.width; left += cell, ++i) {
      const float from = mixed[static_cast<std::size_t>(i)], slope = (mixed[static_cast<std::size_t>(i) + 1] - from) * step;
      const int n = std::min(cell, plane.width - left);
      for (int k = 0; k < n; ++k) row[left + k] += from + slope * static_cast<float>(k);
    }
  }
}

/// Discs with hard edges, in all three planes.
void add_objects(Plane& light, Plane& blue, Plane& red, int count, Stream& stream) {
  Draws draws(stream);
  const auto extent = static_cast<float>(std::min(light.width, light.height));
  for (int i = 0; i < count; ++i) {
    const float radius = extent * (0.02F + 0.16F * std::abs(draws.next()));
    const float x = (draws.next() + 1) / 2 * static_cast<float>(light.width),
                y = (draws.next() + 1) / 2 * static_cast<float>(light.height);
    const float change[3] = {50 * draws.next(), 20 * draws.next(), 20 * draws.next()};
    const int top = std::max(0, static_cast<int>(y - radius)), bottom = std::min(light.height, static_cast<int>(y + radius) + 1);
    for (int line = top; line < bottom; ++line) {
      const float dy = static_cast<float>(line) - y;
      const float half = std::sqrt(std::max(0.0F, radius * radius - dy * dy));
      const int left = std::max(0, static_cast<int>(x - half)), right = std::min(light.width, static_cast<int>(x + half));
      Plane* const planes[3] = {&light, &blue, &red};
      for (int p = 0; p < 3; ++p) {
        float* const row = planes[p]->row(line);
        for (int k = left; k < right; ++k) row[k] += change[p];
      }
    }
  }
}

struct Window {
  int x, y, width, height;
};

}  // namespace

void make_synthetic_jpeg(Stream stream, const SyntheticTarget& target, std::vector<std::uint8_t>& jpeg) {
  const int width = target.width, height = target.height;
  MISFIRE_ASSERT(width > 0 && height > 0 && target.bytes_per_pixel > 0);
  Plane light(width, height), blue(width, height), red(width, height), texture(width, height), strength(width, height);
  const int extent = std::max(8, std::min(width, height));
  float amplitude = 60;
  for (int cell = extent / 2; cell >= extent / 12; cell /= 2, amplitude *= 0.5F) {
    add_octave(light, cell, amplitude, stream);
    add_octave(blue, cell, amplitude * 0.3F, stream);
    add_octave(red, cell, amplitude * 0.3F, stream);
  }
  // Few objects where few bytes are wanted: their edges cost bytes whatever the texture.
  add_objects(light, blue, red, std::clamp(static_cast<int>(60 * target.bytes_per_pixel), 1, 40), stream);
  add_octave(texture, 8, 1.0F, stream);
  add_octave(texture, 4, 1.0F, stream);
  add_octave(texture, 2, 0.7F, stream);
  add_octave(texture, 1, 0.35F, stream);
  add_octave(strength, extent / 3, 1.0F, stream);
  add_octave(strength, extent / 8, 0.7F, stream);

  std::vector<std::uint8_t> rgb;
  const auto encode = [&](const Window& window, double level) {
    rgb.resize(static_cast<std::size_t>(window.width) * static_cast<std::size_t>(window.height) * 3);
    std::uint8_t* out = rgb.data();
    const auto gain = static_cast<float>(level);
    const auto byte = [](float value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F)); };
    for (int y = window.y; y < window.y + window.height; ++y) {
      const float *l = light.row(y), *b = blue.row(y), *r = red.row(y), *t = texture.row(y), *s = strength.row(y);
      for (int x = window.x; x < window.x + window.width; ++x, out += 3) {
        // Texture is strong in some parts and nearly absent in others, as sky and leaves are.
        const float here = std::max(0.02F, s[x] + 0.2F);
        const float value = 120 + l[x] + gain * here * t[x];
        out[0] = byte(value + 1.402F * r[x]);
        out[1] = byte(value - 0.344F * b[x] - 0.714F * r[x]);
        out[2] = byte(value + 1.772F * b[x]);
      }
    }
    encode_jpeg(rgb, window.width, window.height, target.quality, jpeg);
    return static_cast<double>(jpeg.size()) / (static_cast<double>(window.width) * window.height);
  };

  // The size grows about with a power of the texture's strength: secant steps on the logarithms, on a band of rows for large
  // images. The bounds are where texture vanishes and where it fills the range of values.
  const int sample_height = std::min(height, std::max(64, 192 * 1024 / width / 16 * 16));
  const Window sample{0, (height - sample_height) / 2, width, sample_height}, whole{0, 0, width, height};
  const double wanted = std::log(target.bytes_per_pixel);
  double level = std::log(15.0), slope = 0.6, level_before = 0, size_before = 0;
  for (int i = 0; i < 8; ++i) {
    const double size = std::log(encode(sample, std::exp(level)));
    if (std::abs(size - wanted) < 0.02) break;
    if (i > 0 && std::abs(level - level_before) > 1e-6)
      slope = std::clamp((size - size_before) / (level - level_before), 0.15, 1.5);
    level_before = level;
    size_before = size;
    level = std::clamp(level + (wanted - size) / slope, std::log(0.1), std::log(400.0));
  }
  const double error = wanted - std::log(encode(whole, std::exp(level)));
  // What the band did not show of the whole.
  if (sample_height < height && std::abs(error) > 0.02) encode(whole, std::exp(level + error / slope));
}

}  // namespace misfire::dataloader
