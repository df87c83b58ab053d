#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace misfire::dataloader {

/// One axis of a resampling: what interval of the source maps to the output, and which source pixels may be used for it.
struct ResizeAxis {
  double begin = 0, extent = 1;  ///< interval, in source pixels
  int first = 0, last = 1;       ///< pixels [first, last) exist; weights of others are spread over these
  int out = 1;                   ///< output pixels
  bool reversed = false;         ///< output pixel 0 is at the interval's end
};

/// Bilinear resampling of RGB images, antialiased: when reducing, the triangle filter grows with the reduction.
///
/// Works in 16-bit fixed point, vertically first; the result is within one level of the exact one. Loops are plain C++ that
/// compilers vectorise on every architecture. Keeps its tables between calls.
/// @source the triangle filter of Pillow's Image.resize(BILINEAR), which torchvision's antialias=True follows
class Resizer {
 public:
  /// Computes the weights. Nothing is allocated when the sizes are no larger than before.
  void plan(const ResizeAxis& x, const ResizeAxis& y);

  /// The output is made in bands of a few rows, each from a few source rows, so that an image can be resized while it is decoded.
  struct Rows {
    int first = 0, last = 0;  ///< source rows [first, last), counted from y.first
  };
  int bands() const noexcept;
  Rows source_rows(int band) const noexcept;  ///< neither end moves back from band to band
  int source_rows_max() const noexcept;       ///< of one band

  /// @param rgbx    four bytes a pixel, the fourth ignored; pixel x.first of the band's first source row
  /// @param stride  bytes from row to row
  /// @param out     u8 [y.out, x.out, 3], the whole output, of which the band's rows are written
  void run_band(int band, const std::uint8_t* rgbx, std::size_t stride, std::uint8_t* out);

  /// All bands. @param rgbx pixel x.first of row y.first
  void run(const std::uint8_t* rgbx, std::size_t stride, std::uint8_t* out);

 private:
  /// Weights of one axis: output pixel i is the sum over k of weights[i * taps + k] / 65536 * source[start[i] + k].
  struct Taps {
    int out = 0, taps = 0, source = 0;
    std::vector<int> start;
    std::vector<std::uint16_t> weights;
    void plan(const ResizeAxis& axis);
    /// Taps of output pixel i that lie inside the source; others have weight zero.
    int count(std::size_t i) const { return std::min(taps, source - start[i]); }
    std::vector<double> scratch;
  };
  Taps x_, y_;
  // A band of output rows on its way: resampled vertically, the same turned over, resampled horizontally.
  std::vector<std::uint16_t> rows_, columns_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint32_t> exact_;  // sums of many terms
};

}  // namespace misfire::dataloader
