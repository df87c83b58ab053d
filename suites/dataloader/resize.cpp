#include "suites/dataloader/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/error.hpp"

// On x86-64 the loops are also compiled for AVX2 and chosen when the program starts (AVX-512 gains nothing here); everywhere
// else, and under sanitizers (whose runtime is not up when the choice is made), the baseline of the target serves.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MISFIRE_WIDEST __attribute__((target_clones("default", "avx2")))
#else
#define MISFIRE_WIDEST
#endif

namespace misfire::dataloader {
namespace {

constexpr int channels = 4;   // of the source: RGBX
constexpr int band_rows = 8;  // output rows resampled horizontally together, so that vectors run across rows
constexpr int band_lanes = band_rows * channels;
constexpr int short_taps = 6;  // sums of up to so many terms are taken in 16 bits

// A source value in 8.8 fixed point.
inline std::uint16_t fixed(std::uint8_t value) { return static_cast<std::uint16_t>(value << 8); }
inline std::uint16_t fixed(std::uint16_t value) { return value; }

/// sum[i] = extra + sum over k < count of source[k * stride + i] * weights[k], in 8.8 fixed point.
///
/// The high half of a 16 x 16 bit product is one instruction to compilers. It is cut, not rounded: half a unit of 1/256 is lost a
/// term, which `extra` makes up for.
template <int count, class Source>
inline __attribute__((always_inline)) void short_sum(const Source* source, std::size_t stride, const std::uint16_t* weights,
                                                     std::uint16_t extra, std::uint16_t* __restrict sum, std::size_t n) {
  std::uint16_t weight[count];
  for (int k = 0; k < count; ++k) weight[k] = weights[k];
  for (std::size_t i = 0; i < n; ++i) {
    auto value = static_cast<std::uint16_t>(extra + count / 2);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < count; ++k) {
      value = static_cast<std::uint16_t>(value + (static_cast<std::uint32_t>(fixed(source[k * stride + i])) * weight[k] >> 16));
    }
    sum[i] = value;
  }
}

/// The same for any number of terms, in 32 bits: weights sum to 65535 and values end at 65280, so white still fits.
template <class Source>
inline __attribute__((always_inline)) void long_sum(const Source* source, std::size_t stride, const std::uint16_t* weights,
                                                    int taps, std::uint16_t extra, std::uint32_t* __restrict exact,
                                                    std::uint16_t* sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) exact[i] = (static_cast<std::uint32_t>(extra) << 16) + 32768;
  for (int k = 0; k < taps; ++k, source += stride) {
    const std::uint32_t weight = weights[k];
    for (std::size_t i = 0; i < n; ++i) exact[i] += fixed(source[i]) * weight;
  }
  for (std::size_t i = 0; i < n; ++i) sum[i] = static_cast<std::uint16_t>(exact[i] >> 16);
}

template <class Source>
inline __attribute__((always_inline)) void weighted_sum(const Source* source, std::size_t stride, const std::uint16_t* weights,
                                                        int taps, std::uint16_t extra, std::uint32_t* exact, std::uint16_t* sum,
                                                        std::size_t n) {
  switch (taps) {
    case 1:
      return short_sum<1>(source, stride, weights, extra, sum, n);
    case 2:
      return short_sum<2>(source, stride, weights, extra, sum, n);
    case 3:
      return short_sum<3>(source, stride, weights, extra, sum, n);
    case 4:
      return short_sum<4>(source, stride, weights, extra, sum, n);
    case 5:
      return short_sum<5>(source, stride, weights, extra, sum, n);
    case short_taps:
      return short_sum<short_taps>(source, stride, weights, extra, sum, n);
    default:
      return long_sum(source, stride, weights, taps, extra, exact, sum, n);
  }
}

/// One output row, not yet resampled horizontally. n: elements (pixels x channels).
MISFIRE_WIDEST void resample_vertically(const std::uint8_t* source, std::size_t stride, const std::uint16_t* weights, int taps,
                                        std::uint32_t* exact, std::uint16_t* row, std::size_t n) {
  weighted_sum(source, stride, weights, taps, 0, exact, row, n);
}

/// Output pixels [x][row of the band] of RGBX, 8 bit, from source pixels in the same layout, 8.8.
MISFIRE_WIDEST void resample_horizontally(const std::uint16_t* columns, int source, const int* start,
                                          const std::uint16_t* weights, int taps_max, std::uint8_t* bytes, int width) {
  std::uint32_t exact[band_lanes];
  std::uint16_t sum[band_lanes];
  for (int x = 0; x < width; ++x) {
    const int taps = std::min(taps_max, source - start[x]);
    weighted_sum(columns + static_cast<std::size_t>(start[x]) * band_lanes, std::size_t{band_lanes}, weights, taps, 128, exact,
                 sum, std::size_t{band_lanes});
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
  const double support = std::max(1.0, step), slope = 1 / support;
  out = axis.out;
  source = axis.last - axis.first;
  taps = std::min(static_cast<int>(std::ceil(2 * support)) + 1, source);
  start.resize(static_cast<std::size_t>(out));
  weights.assign(static_cast<std::size_t>(out) * static_cast<std::size_t>(taps), 0);
  scratch.resize(static_cast<std::size_t>(taps));
  for (int i = 0; i < out; ++i) {
    const int position = axis.reversed ? out - 1 - i : i;
    const double centre = axis.begin + (position + 0.5) * step;  // the centre of source pixel p is p + 0.5
    // Positions are not negative before the cut, so truncation is the floor.
    int low = std::max(axis.first, static_cast<int>(std::max(0.0, centre - support + 0.5)));
    int high = std::min(axis.last, static_cast<int>(centre + support + 0.5));
    low = std::min(low, axis.last - 1);
    high = std::clamp(high, low + 1, low + taps);
    double total = 0;
    for (int p = low; p < high; ++p) {
      const double weight = std::max(0.0, 1 - std::abs(p + 0.5 - centre) * slope);
      scratch[static_cast<std::size_t>(p - low)] = weight;
      total += weight;
    }
    std::uint16_t* row = weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps);
    if (total <= 0) {  // the centre lies outside all pixels: the nearest one
      row[0] = 65535;
    } else {
      // Rounding errors are carried along, so that weights sum to 65535 exactly: a flat image stays flat.
      const double scale = 65535 / total;
      double exact = 0;
      int given = 0;
      for (int k = 0; k < high - low; ++k) {
        exact += scratch[static_cast<std::size_t>(k)] * scale;
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
  exact_.resize(width * channels);
  rows_.resize(width * band_lanes);
  columns_.resize(width * band_lanes);
  bytes_.resize(static_cast<std::size_t>(x_.out) * band_lanes);
}

int Resizer::bands() const noexcept { return (y_.out + band_rows - 1) / band_rows; }

Resizer::Rows Resizer::source_rows(int band) const noexcept {
  const auto first = static_cast<std::size_t>(band) * band_rows;
  const std::size_t last = std::min(first + band_rows, static_cast<std::size_t>(y_.out)) - 1;
  return {y_.start[first], y_.start[last] + y_.count(last)};
}

int Resizer::source_rows_max() const noexcept {
  int most = 0;
  for (int band = 0; band < bands(); ++band) most = std::max(most, source_rows(band).last - source_rows(band).first);
  return most;
}

void Resizer::run_band(int band, const std::uint8_t* rgbx, std::size_t stride, std::uint8_t* out) {
  const auto width = static_cast<std::size_t>(x_.source), out_width = static_cast<std::size_t>(x_.out);
  const auto first = static_cast<std::size_t>(band) * band_rows;
  const std::size_t rows = std::min(static_cast<std::size_t>(band_rows), static_cast<std::size_t>(y_.out) - first);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t y = first + r;
    resample_vertically(rgbx + static_cast<std::size_t>(y_.start[y] - y_.start[first]) * stride, stride,
                        y_.weights.data() + y * static_cast<std::size_t>(y_.taps), y_.count(y), exact_.data(),
                        rows_.data() + r * width * channels, width * channels);
  }
  turn_over(rows_.data(), width, columns_.data());
  resample_horizontally(columns_.data(), x_.source, x_.start.data(), x_.weights.data(), x_.taps, bytes_.data(), x_.out);
  for (std::size_t r = 0; r < rows; ++r) write_row(bytes_.data() + r * channels, out_width, out + (first + r) * out_width * 3);
}

void Resizer::run(const std::uint8_t* rgbx, std::size_t stride, std::uint8_t* out) {
  for (int band = 0; band < bands(); ++band) {
    run_band(band, rgbx + static_cast<std::size_t>(source_rows(band).first) * stride, stride, out);
  }
}

}  // namespace misfire::dataloader
