#include "suites/dataloader/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/error.hpp"

// On x86-64 the loops are also compiled for wider vectors and chosen when the program starts; everywhere else, and under
// sanitizers (whose runtime is not up when the choice is made), the baseline of the target serves.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MISFIRE_WIDEST __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define MISFIRE_WIDEST
#endif

namespace misfire::dataloader {
namespace {

constexpr int channels = 4;   // of the source: RGBX
constexpr int band_rows = 8;  // output rows resampled horizontally together, so that vectors run across rows
constexpr int band_lanes = band_rows * channels;
constexpr int group_taps = 6;  // source pixels that one pass over the sums adds

// A source value in 8.8 fixed point.
inline std::uint16_t fixed(std::uint8_t value) { return static_cast<std::uint16_t>(value << 8); }
inline std::uint16_t fixed(std::uint16_t value) { return value; }

// High half of a 16 x 16 bit product, the form that compilers know as one instruction.
inline std::uint16_t scaled(std::uint16_t value, std::uint16_t weight) {
  return static_cast<std::uint16_t>((static_cast<std::uint32_t>(value) * weight) >> 16);
}

// Each product is cut, not rounded: on average half a unit is lost a tap. Bounded so that white cannot overflow.
inline std::uint16_t rounding(int taps) { return static_cast<std::uint16_t>(std::min(taps / 2, 64)); }

template <int count, bool first, class Source>
inline __attribute__((always_inline)) void add_taps(const Source* source, std::size_t stride, const std::uint16_t* weights,
                                                    std::uint16_t begin, std::uint16_t* __restrict sum, std::size_t n) {
  std::uint16_t weight[count];
  for (int k = 0; k < count; ++k) weight[k] = weights[k];
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t value = first ? begin : sum[i];
#pragma GCC unroll 8
    for (std::size_t k = 0; k < count; ++k)
      value = static_cast<std::uint16_t>(value + scaled(fixed(source[k * stride + i]), weight[k]));
    sum[i] = value;
  }
}

template <bool first, class Source>
inline __attribute__((always_inline)) void add_group(int count, const Source* source, std::size_t stride,
                                                     const std::uint16_t* weights, std::uint16_t begin, std::uint16_t* sum,
                                                     std::size_t n) {
  switch (count) {
    case 1:
      return add_taps<1, first>(source, stride, weights, begin, sum, n);
    case 2:
      return add_taps<2, first>(source, stride, weights, begin, sum, n);
    case 3:
      return add_taps<3, first>(source, stride, weights, begin, sum, n);
    case 4:
      return add_taps<4, first>(source, stride, weights, begin, sum, n);
    case 5:
      return add_taps<5, first>(source, stride, weights, begin, sum, n);
    default:
      return add_taps<group_taps, first>(source, stride, weights, begin, sum, n);
  }
}

/// sum[0..n) = begin + weighted sum of `taps` vectors that lie `stride` elements apart, in 8.8 fixed point.
template <class Source>
inline __attribute__((always_inline)) void weighted_sum(const Source* source, std::size_t stride, const std::uint16_t* weights,
                                                        int taps, std::uint16_t begin, std::uint16_t* sum, std::size_t n) {
  add_group<true>(std::min(taps, group_taps), source, stride, weights, begin, sum, n);
  for (int done = group_taps; done < taps; done += group_taps) {
    add_group<false>(std::min(taps - done, group_taps), source + static_cast<std::size_t>(done) * stride, stride, weights + done,
                     0, sum, n);
  }
}

/// One output row, not yet resampled horizontally. n: elements (pixels x channels).
MISFIRE_WIDEST void resample_vertically(const std::uint8_t* source, std::size_t stride, const std::uint16_t* weights, int taps,
                                        std::uint16_t* row, std::size_t n) {
  weighted_sum(source, stride, weights, taps, rounding(taps), row, n);
}

/// Output pixels [x][row of the band] of RGBX, 8 bit, from source pixels in the same layout, 8.8.
MISFIRE_WIDEST void resample_horizontally(const std::uint16_t* columns, int source, const int* start,
                                          const std::uint16_t* weights, int taps_max, std::uint8_t* bytes, int width) {
  std::uint16_t sum[band_lanes];
  for (int x = 0; x < width; ++x) {
    const int taps = std::min(taps_max, source - start[x]);
    weighted_sum(columns + static_cast<std::size_t>(start[x]) * band_lanes, std::size_t{band_lanes}, weights, taps,
                 static_cast<std::uint16_t>(128 + rounding(taps)), sum, std::size_t{band_lanes});
    for (int lane = 0; lane < band_lanes; ++lane) bytes[lane] = static_cast<std::uint8_t>(sum[lane] >> 8);
    weights += taps_max;
    bytes += band_lanes;
  }
}

/// [row][x] becomes [x][row].
void turn_over(const std::uint16_t* __restrict rows, std::size_t width, std::uint16_t* __restrict columns) {
  for (std::size_t x = 0; x < width; ++x) {
    for (std::size_t r = 0; r < band_rows; ++r) {
      std::memcpy(columns + x * band_lanes + r * channels, rows + (r * width + x) * channels, channels * sizeof(std::uint16_t));
    }
  }
}

/// One row of RGB from its pixels in a band: four bytes are copied for three, and the next pixel overwrites the fourth.
void write_row(const std::uint8_t* __restrict bytes, std::size_t width, std::uint8_t* __restrict out) {
  for (std::size_t x = 0; x + 1 < width; ++x) std::memcpy(out + x * 3, bytes + x * band_lanes, 4);
  std::memcpy(out + (width - 1) * 3, bytes + (width - 1) * band_lanes, 3);
}

}  // namespace

void Resizer::Taps::plan(const ResizeAxis& axis) {
  MISFIRE_ASSERT(axis.out > 0 && axis.last > axis.first && axis.extent > 0);
  const double step = axis.extent / axis.out;
  const double support = std::max(1.0, step);
  out = axis.out;
  source = axis.last - axis.first;
  taps = std::min(static_cast<int>(std::ceil(2 * support)) + 1, source);
  start.resize(static_cast<std::size_t>(out));
  weights.assign(static_cast<std::size_t>(out) * static_cast<std::size_t>(taps), 0);
  scratch.resize(static_cast<std::size_t>(taps));
  for (int i = 0; i < out; ++i) {
    const int position = axis.reversed ? out - 1 - i : i;
    const double centre = axis.begin + (position + 0.5) * step;  // the centre of source pixel p is p + 0.5
    int low = std::max(axis.first, static_cast<int>(std::floor(centre - support + 0.5)));
    int high = std::min(axis.last, static_cast<int>(std::floor(centre + support + 0.5)));
    low = std::min(low, axis.last - 1);
    high = std::clamp(high, low + 1, low + taps);
    double total = 0;
    for (int p = low; p < high; ++p) {
      const double weight = std::max(0.0, 1 - std::abs(p + 0.5 - centre) / support);
      scratch[static_cast<std::size_t>(p - low)] = weight;
      total += weight;
    }
    std::uint16_t* row = weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps);
    if (total <= 0) {  // the centre lies outside all pixels: the nearest one
      row[0] = 65535;
    } else {
      // Rounding errors are carried along, so that weights sum to 65535 exactly: a flat image stays flat.
      double exact = 0;
      int given = 0;
      for (int k = 0; k < high - low; ++k) {
        exact += scratch[static_cast<std::size_t>(k)] / total * 65535;
        const int upto = static_cast<int>(exact + 0.5);
        row[k] = static_cast<std::uint16_t>(upto - given);
        given = upto;
      }
    }
    start[static_cast<std::size_t>(i)] = low - axis.first;
  }
}

void Resizer::plan(const ResizeAxis& x, const ResizeAxis& y) {
  x_.plan(x);
  y_.plan(y);
  const auto width = static_cast<std::size_t>(x_.source);
  rows_.resize(width * band_lanes);
  columns_.resize(width * band_lanes);
  bytes_.resize(static_cast<std::size_t>(x_.out) * band_lanes);
}

void Resizer::run(const std::uint8_t* rgbx, std::size_t stride, std::uint8_t* out) {
  const auto width = static_cast<std::size_t>(x_.source), out_width = static_cast<std::size_t>(x_.out);
  for (int band = 0; band < y_.out; band += band_rows) {
    const auto rows = static_cast<std::size_t>(std::min(band_rows, y_.out - band));
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t y = static_cast<std::size_t>(band) + r;
      // Taps of weight zero may lie past the last row.
      const int taps = std::min(y_.taps, y_.source - y_.start[y]);
      resample_vertically(rgbx + static_cast<std::size_t>(y_.start[y]) * stride, stride,
                          y_.weights.data() + y * static_cast<std::size_t>(y_.taps), taps, rows_.data() + r * width * channels,
                          width * channels);
    }
    turn_over(rows_.data(), width, columns_.data());
    resample_horizontally(columns_.data(), x_.source, x_.start.data(), x_.weights.data(), x_.taps, bytes_.data(), x_.out);
    for (std::size_t r = 0; r < rows; ++r) {
      write_row(bytes_.data() + r * channels, out_width, out + (static_cast<std::size_t>(band) + r) * out_width * 3);
    }
  }
}

}  // namespace misfire::dataloader
