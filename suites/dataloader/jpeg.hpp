#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "suites/dataloader/crop.hpp"

namespace misfire::dataloader {

/// What became of a decode. Bad input is a value, never an exception and never a crash.
enum class DecodeStatus {
  ok,
  empty,        ///< no bytes at all
  not_jpeg,     ///< does not start like a JPEG
  truncated,    ///< ends before the image does
  corrupt,      ///< the decoder complained; its warnings count
  refused,      ///< sound, but excluded by JpegOptions (grey, CMYK, too many pixels) or of a kind that cannot be decoded
  bad_request,  ///< box outside the image, empty output, or output memory of the wrong size
};
std::string_view decode_status_name(DecodeStatus status) noexcept;

struct DecodeResult {
  DecodeStatus status = DecodeStatus::ok;
  std::string message = {};  ///< one line for people; empty when ok
  explicit operator bool() const noexcept { return status == DecodeStatus::ok; }
};

struct JpegHeader {
  int width = 0, height = 0;
  int components = 0;  ///< 1 grey, 3 colour, 4 CMYK or YCCK
  bool progressive = false;
};

struct JpegOptions {
  bool accept_grey = true;                ///< spread over three channels; else refused
  bool accept_cmyk = true;                ///< CMYK and YCCK converted to RGB; else refused
  bool scaled = true;                     ///< decode at the smallest of 1/8 ... 8/8 that still covers the output
  std::uint64_t max_pixels = 1ULL << 28;  ///< larger images are refused before memory is taken for them
};

/// Decodes JPEG files to RGB. One object a thread: it keeps its buffers and tables between images and is not thread-safe.
///
/// Output everywhere: u8 [out_height, out_width, 3], rows without padding, written straight into the caller's memory.
/// Resampling is bilinear with support grown by the reduction (antialiased), within the box only, as torchvision's
/// resized_crop with antialias does.
class JpegDecoder {
 public:
  explicit JpegDecoder(const JpegOptions& options = {});
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;
  ~JpegDecoder();

  /// Size and kind of an image, without decoding it.
  DecodeResult read_header(std::span<const std::uint8_t> jpeg, JpegHeader& header);

  /// Decodes `box` and resizes it to out_width x out_height: only the rows and columns that the box needs are transformed,
  /// at the smallest sufficient scale, and decoding stops after the last row needed.
  /// @param out  exactly out_width * out_height * 3 bytes; its content is unspecified when the result is not ok
  DecodeResult decode_crop(std::span<const std::uint8_t> jpeg, const CropBox& box, int out_width, int out_height, bool flip,
                           std::span<std::uint8_t> out);

  /// The reference for decode_crop: decodes the whole image at full size, then crops and resizes.
  DecodeResult decode_full(std::span<const std::uint8_t> jpeg, const CropBox& box, int out_width, int out_height, bool flip,
                           std::span<std::uint8_t> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Encodes an RGB image as baseline JPEG with 4:2:0 chroma, as cameras and data sets do.
/// @param rgb      u8 [height, width, 3]
/// @param quality  1 to 100
/// @return         the file, in a buffer that is reused
/// @throws Error{invalid_input} for sizes that JPEG cannot hold or that do not fit `rgb`
void encode_jpeg(std::span<const std::uint8_t> rgb, int width, int height, int quality, std::vector<std::uint8_t>& jpeg);

}  // namespace misfire::dataloader
