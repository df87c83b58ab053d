// JPEG decoding through libjpeg-turbo, by region of interest and at reduced scale.
//
// libjpeg reports errors by a call that must not return: it jumps out of the library with longjmp, over frames of C only. The
// functions that may be jumped into (those that call setjmp) therefore hold no object with a destructor; all state lives in
// State.
#include "suites/dataloader/jpeg.hpp"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <jpeglib.h>

#include <jerror.h>

#include "harness/error.hpp"
#include "suites/dataloader/resize.hpp"

namespace misfire::dataloader {
namespace {

constexpr int scans_max = 64;  // sound progressive files have about ten; hostile ones repeat scans to burn time
constexpr int output_max = 1 << 14;

struct ErrorState {
  jpeg_error_mgr base;  // first: libjpeg hands out pointers to it
  std::jmp_buf escape;
  DecodeStatus status;
  bool ended_early;
  char message[JMSG_LENGTH_MAX];
};

DecodeStatus status_of(int code, bool ended_early) {
  switch (code) {
    case JERR_NO_SOI:
      return DecodeStatus::not_jpeg;
    case JERR_INPUT_EMPTY:
      return DecodeStatus::empty;
    case JERR_INPUT_EOF:
    case JWRN_JPEG_EOF:
      return DecodeStatus::truncated;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_IMAGE_TOO_BIG:
    case JERR_NOT_COMPILED:
    case JERR_OUT_OF_MEMORY:
    case JERR_SOF_UNSUPPORTED:
    case JERR_WIDTH_OVERFLOW:
      return DecodeStatus::refused;
    default:
      return ended_early ? DecodeStatus::truncated : DecodeStatus::corrupt;
  }
}

[[noreturn]] void leave(j_common_ptr info) {
  auto* error = reinterpret_cast<ErrorState*>(info->err);
  error->status = status_of(error->base.msg_code, error->ended_early);
  error->base.format_message(info, error->message);
  std::longjmp(error->escape, 1);
}

// A warning means that pixels were invented: the image counts as corrupt. Remarks about metadata do not.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  auto* error = reinterpret_cast<ErrorState*>(info->err);
  switch (error->base.msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_JFIF_MAJOR:
      return;
    case JWRN_JPEG_EOF:
      error->ended_early = true;
      break;
    default:
      break;
  }
  leave(info);
}

void on_progress(j_common_ptr info) {
  if (!info->is_decompressor) return;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= scans_max) return;
  auto* error = reinterpret_cast<ErrorState*>(info->err);
  error->status = DecodeStatus::refused;
  std::snprintf(error->message, sizeof error->message, "more than %d scans", scans_max);
  std::longjmp(error->escape, 1);
}

// Ink to light. Adobe writes CMYK inverted (0 is full ink), everybody else does not.
void cmyk_to_rgbx(std::uint8_t* pixels, std::size_t count, bool inverted) {
  for (std::size_t i = 0; i < count; ++i, pixels += 4) {
    const unsigned black = inverted ? pixels[3] : 255U - pixels[3];
    for (int c = 0; c < 3; ++c) {
      const unsigned light = inverted ? pixels[c] : 255U - pixels[c];
      pixels[c] = static_cast<std::uint8_t>((light * black + 127) / 255);
    }
  }
}

}  // namespace

std::string_view decode_status_name(DecodeStatus status) noexcept {
  switch (status) {
    case DecodeStatus::ok:
      return "ok";
    case DecodeStatus::empty:
      return "empty";
    case DecodeStatus::not_jpeg:
      return "not_jpeg";
    case DecodeStatus::truncated:
      return "truncated";
    case DecodeStatus::corrupt:
      return "corrupt";
    case DecodeStatus::refused:
      return "refused";
    case DecodeStatus::bad_request:
      return "bad_request";
  }
  return "unknown";
}

struct JpegDecoder::State {
  JpegOptions options;
  jpeg_decompress_struct info;
  ErrorState error;
  jpeg_progress_mgr progress;
  std::vector<std::uint8_t> pixels;  // decoded rows, RGBX
  std::vector<JSAMPROW> rows;
  Resizer resizer;

  bool ink = false;  // CMYK

  struct Request {
    CropBox box;
    int out_width, out_height;
    bool flip, whole;
    std::uint8_t* out;
  };

  explicit State(const JpegOptions& chosen) : options(chosen), info{}, error{}, progress{} {
    info.err = jpeg_std_error(&error.base);
    error.base.error_exit = leave;
    error.base.emit_message = on_message;
    error.base.output_message = [](j_common_ptr) {};
    progress.progress_monitor = on_progress;
    if (setjmp(error.escape) != 0) throw Error(ErrorCode::internal, "libjpeg does not start: " + std::string(error.message));
    jpeg_create_decompress(&info);
    info.progress = &progress;
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { jpeg_destroy_decompress(&info); }

  bool start(std::span<const std::uint8_t> jpeg) noexcept;
  bool decode(const Request& request) noexcept;
  void read_rows(int from, int to) noexcept;
  ResizeAxis axis(int begin, int extent, JDIMENSION size, int out, bool reversed) const noexcept;
  bool refuse(DecodeStatus status, const char* message) noexcept {
    error.status = status;
    std::snprintf(error.message, sizeof error.message, "%s", message);
    jpeg_abort_decompress(&info);
    return false;
  }
  DecodeResult result() const {
    return {error.status, error.status == DecodeStatus::ok ? std::string() : std::string(error.message)};
  }
  DecodeResult run(std::span<const std::uint8_t> jpeg, const Request& request, std::size_t out_size);
};

// Reads the header and checks what can be checked without decoding.
bool JpegDecoder::State::start(std::span<const std::uint8_t> jpeg) noexcept {
  error.status = DecodeStatus::ok;
  error.ended_early = false;
  error.base.num_warnings = 0;
  if (jpeg.empty()) return refuse(DecodeStatus::empty, "the file is empty");
  if (jpeg.size() < 2 || jpeg[0] != 0xFF || jpeg[1] != 0xD8) return refuse(DecodeStatus::not_jpeg, "not a JPEG: no start marker");
  if (setjmp(error.escape) != 0) {
    jpeg_abort_decompress(&info);
    return false;
  }
  jpeg_mem_src(&info, jpeg.data(), static_cast<unsigned long>(jpeg.size()));
  jpeg_read_header(&info, TRUE);
  if (static_cast<std::uint64_t>(info.image_width) * info.image_height > options.max_pixels) {
    return refuse(DecodeStatus::refused, "more pixels than accepted (max_pixels)");
  }
  if (info.num_components == 1 && !options.accept_grey)
    return refuse(DecodeStatus::refused, "grey image (1 component), refused by option");
  if (info.num_components == 4 && !options.accept_cmyk) {
    return refuse(DecodeStatus::refused, "CMYK image (4 components), refused by option");
  }
  // Decoding stops after the last row needed, so a missing end must be looked for: inside image data FF is always followed by
  // 00 or a restart marker, hence the search stops at once in a sound file and finds nothing in one cut short.
  const std::uint8_t* const image = info.src->next_input_byte;
  for (const std::uint8_t* p = jpeg.data() + jpeg.size() - 1; p > image; --p) {
    if (*p == 0xD9 && p[-1] == 0xFF) return true;
  }
  return refuse(DecodeStatus::truncated, "the file ends before the image does");
}

// Decodes what the box needs and resizes it. Ends with the decompressor idle.
bool JpegDecoder::State::decode(const Request& request) noexcept {
  if (setjmp(error.escape) != 0) {
    jpeg_abort_decompress(&info);
    return false;
  }
  const CropBox& box = request.box;
  info.scale_denom = 8;
  info.scale_num = 8;
  if (options.scaled && !request.whole) {
    // The smallest scale at which the box still has as many pixels as the output, of those that have fast transforms.
    for (unsigned scale : {1U, 2U, 4U}) {
      if (static_cast<std::int64_t>(box.width) * scale >= static_cast<std::int64_t>(request.out_width) * 8 &&
          static_cast<std::int64_t>(box.height) * scale >= static_cast<std::int64_t>(request.out_height) * 8) {
        info.scale_num = scale;
        break;
      }
    }
  }
  ink = info.num_components == 4;
  info.out_color_space = ink ? JCS_CMYK : JCS_EXT_RGBX;
  info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&info);

  const ResizeAxis x = axis(box.x, box.width, info.output_width, request.out_width, request.flip);
  const ResizeAxis y = axis(box.y, box.height, info.output_height, request.out_height, false);
  JDIMENSION left = 0;  // column of the image that decoded rows begin with
  if (!request.whole) {
    // Interpolated chroma at the edge of the decoded part would lack its neighbour: two pixels more bring it.
    const JDIMENSION margin = 2, first = static_cast<JDIMENSION>(x.first), last = static_cast<JDIMENSION>(x.last);
    left = first > margin ? first - margin : 0;
    JDIMENSION width = std::min(last + margin, info.output_width) - left;
    jpeg_crop_scanline(&info, &left, &width);  // moves `left` to where a block begins
    if (y.first > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(y.first));
  }
  // libjpeg-turbo writes rows that are aligned past the caches, to memory, from where they would have to come back at once.
  // Rows that begin one pixel after a multiple of 64 bytes stay in the caches.
  constexpr std::size_t line = 64, offset = 4;
  const std::size_t stride = (static_cast<std::size_t>(info.output_width) * 4 + line - 1) / line * line;
  std::uint8_t* first_row = nullptr;
  try {
    resizer.plan(x, y);
    const auto height =
        static_cast<std::size_t>(request.whole ? static_cast<int>(info.output_height) : resizer.source_rows_max());
    pixels.resize(stride * height + line + offset);
    rows.resize(height);
    first_row = pixels.data() + (line - reinterpret_cast<std::uintptr_t>(pixels.data()) % line) % line + offset;
  } catch (const std::exception&) {
    return refuse(DecodeStatus::refused, "not enough memory for its pixels");
  }
  for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = first_row + row * stride;
  const std::size_t column = (static_cast<std::size_t>(x.first) - left) * 4;
  if (request.whole) {
    read_rows(0, static_cast<int>(info.output_height));
    resizer.run(first_row + static_cast<std::size_t>(y.first) * stride + column, stride, request.out);
  } else {
    // Rows are resized while they are still in the nearest cache; what two bands share is moved up.
    Resizer::Rows held;
    for (int band = 0; band < resizer.bands(); ++band) {
      const Resizer::Rows wanted = resizer.source_rows(band);
      const int kept = held.last - wanted.first;
      MISFIRE_ASSERT(kept >= 0);  // the filter leaves no row out
      if (kept > 0 && wanted.first > held.first) {
        std::memmove(first_row, rows[static_cast<std::size_t>(wanted.first - held.first)],
                     static_cast<std::size_t>(kept) * stride);
      }
      read_rows(kept, wanted.last - wanted.first);
      held = wanted;
      resizer.run_band(band, first_row + column, stride, request.out);
    }
  }
  jpeg_abort_decompress(&info);
  return true;
}

// Reads the next rows of the image into rows[from .. to). May be left by longjmp.
void JpegDecoder::State::read_rows(int from, int to) noexcept {
  const auto last = static_cast<JDIMENSION>(to);
  for (auto row = static_cast<JDIMENSION>(from); row < last;) {
    const JDIMENSION end = row + jpeg_read_scanlines(&info, rows.data() + row, last - row);
    for (; row < end; ++row) {
      if (ink) cmyk_to_rgbx(rows[row], info.output_width, info.saw_Adobe_marker);
    }
  }
}

// The part of one axis that an output is made from: only pixels of the box, as if it had been cut out first.
ResizeAxis JpegDecoder::State::axis(int begin, int extent, JDIMENSION size, int out, bool reversed) const noexcept {
  const double scale = info.scale_num / 8.0;
  const int limit = static_cast<int>(size);
  const int first = std::min(static_cast<int>(std::floor(begin * scale)), limit - 1);
  const int last = std::clamp(static_cast<int>(std::ceil((begin + extent) * scale)), first + 1, limit);
  return {.begin = begin * scale, .extent = extent * scale, .first = first, .last = last, .out = out, .reversed = reversed};
}

DecodeResult JpegDecoder::State::run(std::span<const std::uint8_t> jpeg, const Request& request, std::size_t out_size) {
  if (!start(jpeg)) return result();
  const CropBox& box = request.box;
  const auto width = static_cast<int>(info.image_width), height = static_cast<int>(info.image_height);
  const bool inside = box.width > 0 && box.height > 0 && box.x >= 0 && box.y >= 0 && box.width <= width && box.height <= height &&
                      box.x <= width - box.width && box.y <= height - box.height;
  const bool fits = request.out_width > 0 && request.out_height > 0 && request.out_width <= output_max &&
                    request.out_height <= output_max &&
                    out_size == static_cast<std::size_t>(request.out_width) * static_cast<std::size_t>(request.out_height) * 3;
  if (!inside || !fits) {
    refuse(DecodeStatus::bad_request,
           inside ? "the output memory does not fit the output size" : "the box is not inside the image");
  } else {
    decode(request);
  }
  return result();
}

namespace {

// May be jumped into: holds nothing that needs a destructor.
bool compress(jpeg_compress_struct& info, ErrorState& error, const std::uint8_t* rgb, int width, int height, int quality,
              unsigned char** bytes, unsigned long* size) noexcept {
  if (setjmp(error.escape) != 0) return false;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, bytes, size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);  // 4:2:0
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(rgb + static_cast<std::size_t>(info.next_scanline) * static_cast<std::size_t>(width) * 3);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

void encode_jpeg(std::span<const std::uint8_t> rgb, int width, int height, int quality, std::vector<std::uint8_t>& jpeg) {
  if (width < 1 || height < 1 || width > JPEG_MAX_DIMENSION || height > JPEG_MAX_DIMENSION || quality < 1 || quality > 100 ||
      rgb.size() != static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3) {
    throw Error(ErrorCode::invalid_input, "encode JPEG: " + std::to_string(width) + " x " + std::to_string(height) +
                                              " at quality " + std::to_string(quality) + " does not fit " +
                                              std::to_string(rgb.size()) + " bytes of RGB");
  }
  jpeg_compress_struct info{};
  ErrorState error{};
  info.err = jpeg_std_error(&error.base);
  error.base.error_exit = leave;
  error.base.emit_message = on_message;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const bool done = compress(info, error, rgb.data(), width, height, quality, &bytes, &size);
  jpeg_destroy_compress(&info);
  if (done) jpeg.assign(bytes, bytes + size);
  std::free(bytes);
  if (!done) throw Error(ErrorCode::internal, "encode JPEG: " + std::string(error.message));
}

JpegDecoder::JpegDecoder(const JpegOptions& options) : state_(std::make_unique<State>(options)) {}
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;
JpegDecoder& JpegDecoder::operator=(JpegDecoder&&) noexcept = default;
JpegDecoder::~JpegDecoder() = default;

DecodeResult JpegDecoder::read_header(std::span<const std::uint8_t> jpeg, JpegHeader& header) {
  if (!state_->start(jpeg)) return state_->result();
  header = {.width = static_cast<int>(state_->info.image_width),
            .height = static_cast<int>(state_->info.image_height),
            .components = state_->info.num_components,
            .progressive = state_->info.progressive_mode != FALSE};
  jpeg_abort_decompress(&state_->info);
  return {};
}

DecodeResult JpegDecoder::decode_crop(std::span<const std::uint8_t> jpeg, const CropBox& box, int out_width, int out_height,
                                      bool flip, std::span<std::uint8_t> out) {
  return state_->run(jpeg, {box, out_width, out_height, flip, false, out.data()}, out.size());
}

DecodeResult JpegDecoder::decode_full(std::span<const std::uint8_t> jpeg, const CropBox& box, int out_width, int out_height,
                                      bool flip, std::span<std::uint8_t> out) {
  return state_->run(jpeg, {box, out_width, out_height, flip, true, out.data()}, out.size());
}

}  // namespace misfire::dataloader
