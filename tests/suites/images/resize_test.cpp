// Goal: fixed-point resampling is the triangle filter, within one level, at any reduction or enlargement.
// Method: a reference in double, written from the definition; flat images; a checker that aliasing would turn into stripes.
#include "suites/dataloader/resize.hpp"

#include <algorithm>
#include <cmath>

#include "harness/seed.hpp"
#include "tests/check.hpp"

using namespace misfire;
using namespace misfire::dataloader;

namespace {

struct Image {
  int width, height;
  std::vector<std::uint8_t> rgbx;
};

Image noise(int width, int height, std::uint64_t seed) {
  Image image{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 4))};
  Stream stream = Seed(seed).stream("noise");
  for (auto& byte : image.rgbx) byte = static_cast<std::uint8_t>(stream());
  return image;
}

std::vector<double> weights_at(const ResizeAxis& axis, int i) {
  const double step = axis.extent / axis.out, support = std::max(1.0, step);
  const double centre = axis.begin + ((axis.reversed ? axis.out - 1 - i : i) + 0.5) * step;
  std::vector<double> weights(static_cast<std::size_t>(axis.last - axis.first));
  double total = 0;
  for (int p = axis.first; p < axis.last; ++p) {
    // Pixels whose centre lies within the support, as the filter's definition rounds it.
    const int low = static_cast<int>(std::floor(centre - support + 0.5)),
              high = static_cast<int>(std::floor(centre + support + 0.5));
    const double weight = p >= low && p < high ? std::max(0.0, 1 - std::abs(p + 0.5 - centre) / support) : 0;
    weights[static_cast<std::size_t>(p - axis.first)] = weight;
    total += weight;
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

double worst_difference(const Image& image, const ResizeAxis& x, const ResizeAxis& y) {
  Resizer resizer;
  resizer.plan(x, y);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(x.out * y.out * 3) + 16, 77);
  resizer.run(image.rgbx.data(), static_cast<std::size_t>(image.width) * 4, out.data());
  for (std::size_t i = out.size() - 16; i < out.size(); ++i)
    CHECK_EQ(static_cast<int>(out[i]), 77);  // nothing written past the end
  double worst = 0;
  for (int row = 0; row < y.out; ++row) {
    const std::vector<double> down = weights_at(y, row);
    for (int column = 0; column < x.out; ++column) {
      const std::vector<double> across = weights_at(x, column);
      for (int c = 0; c < 3; ++c) {
        double exact = 0;
        for (std::size_t i = 0; i < down.size(); ++i) {
          if (down[i] == 0) continue;
          for (std::size_t k = 0; k < across.size(); ++k) {
            exact += down[i] * across[k] *
                     image.rgbx[(i * static_cast<std::size_t>(image.width) + k) * 4 + static_cast<std::size_t>(c)];
          }
        }
        worst = std::max(worst, std::abs(exact - out[static_cast<std::size_t>((row * x.out + column) * 3 + c)]));
      }
    }
  }
  return worst;
}

TEST("results are the triangle filter's, within rounding") {
  struct Case {
    int width, height;
    double begin_x, extent_x;
    int out_x, out_y;
    bool flip;
  };
  for (const Case& c : {Case{64, 48, 0, 64, 30, 21, false},
                        {64, 48, 0, 64, 30, 21, true},
                        {40, 30, 0.5, 38.25, 17, 9, false},
                        {10, 7, 0, 10, 33, 40, true},
                        {300, 20, 0, 300, 7, 20, false},
                        {1, 1, 0, 1, 5, 5, false},
                        {3, 2, 0, 3, 1, 1, true},
                        {900, 4, 0, 900, 2, 3, false}}) {
    const Image image = noise(c.width, c.height, 9);
    const ResizeAxis x{.begin = c.begin_x, .extent = c.extent_x, .first = 0, .last = c.width, .out = c.out_x, .reversed = c.flip};
    const ResizeAxis y{
        .begin = 0, .extent = static_cast<double>(c.height), .first = 0, .last = c.height, .out = c.out_y, .reversed = false};
    const double worst = worst_difference(image, x, y);
    CHECK(worst <= 1.0);
  }
}

TEST("a flat image stays flat, also black and white, at every reduction") {
  Resizer resizer;
  for (const int value : {0, 1, 127, 254, 255}) {
    for (const auto& [source, out] : {std::pair{10, 10}, {10, 33}, {100, 7}, {4000, 3}, {333, 224}}) {
      const std::vector<std::uint8_t> rgbx(static_cast<std::size_t>(source) * 4 * 8, static_cast<std::uint8_t>(value));
      resizer.plan({.begin = 0, .extent = static_cast<double>(source), .first = 0, .last = source, .out = out},
                   {.begin = 0, .extent = 8, .first = 0, .last = 8, .out = 3});
      std::vector<std::uint8_t> result(static_cast<std::size_t>(out) * 9);
      resizer.run(rgbx.data(), static_cast<std::size_t>(source) * 4, result.data());
      CHECK(std::all_of(result.begin(), result.end(), [&](std::uint8_t byte) { return byte == value; }));
    }
  }
}

TEST("a fine checker becomes grey when reduced, not a pattern") {
  const int size = 256;
  std::vector<std::uint8_t> rgbx(size * size * 4);
  for (int i = 0; i < size * size; ++i) std::fill_n(rgbx.begin() + i * 4, 4, (i / size + i) % 2 ? 255 : 0);
  Resizer resizer;
  resizer.plan({.begin = 0, .extent = size, .first = 0, .last = size, .out = 50},
               {.begin = 0, .extent = size, .first = 0, .last = size, .out = 50});
  std::vector<std::uint8_t> out(50 * 50 * 3);
  resizer.run(rgbx.data(), size * 4, out.data());
  const auto [low, high] = std::minmax_element(out.begin(), out.end());
  CHECK(*low >= 118 && *high <= 137);
}

}  // namespace
