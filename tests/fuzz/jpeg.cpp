// Goal: no image, however broken, makes the decoder crash, read or write outside its memory, or fail without a word.
// Method: header, cropped and full decode with boxes taken from the bytes themselves; outputs of exact size, under ASan.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "suites/dataloader/jpeg.hpp"

using namespace misfire::dataloader;

namespace {

void check(const DecodeResult& result) {
  if (!result && result.message.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static JpegDecoder decoder({.max_pixels = 1U << 20});  // one for all inputs: its buffers must survive bad ones
  const std::span<const std::uint8_t> jpeg(data, size);
  JpegHeader header;
  const DecodeResult read = decoder.read_header(jpeg, header);
  check(read);
  if (!read) return 0;
  const int salt = data[size / 2] % 64;
  CropBox box;
  box.x = std::min(salt, header.width - 1);
  box.y = std::min(salt / 2, header.height - 1);
  box.width = std::max(1, (header.width - box.x) / (1 + salt % 3));
  box.height = std::max(1, (header.height - box.y) / (1 + salt % 2));
  const int width = 1 + salt, height = 33;
  std::vector<std::uint8_t> out(static_cast<std::size_t>(width) * height * 3);
  check(decoder.decode_crop(jpeg, box, width, height, salt % 2 == 1, out));
  check(decoder.decode_full(jpeg, box, width, height, false, out));
  return 0;
}
