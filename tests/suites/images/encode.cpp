#include "tests/suites/images/encode.hpp"

#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

namespace misfire::test {

std::vector<std::uint8_t> encode(const Encoding& encoding) {
  jpeg_compress_struct info{};
  jpeg_error_mgr error{};
  info.err = jpeg_std_error(&error);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(encoding.width);
  info.image_height = static_cast<JDIMENSION>(encoding.height);
  info.input_components = encoding.components;
  info.in_color_space = encoding.components == 1 ? JCS_GRAYSCALE : encoding.components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  if (encoding.ycck) jpeg_set_colorspace(&info, JCS_YCCK);
  if (encoding.components == 4) info.write_Adobe_marker = encoding.adobe ? TRUE : FALSE;
  if (encoding.full_chroma) info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
  info.restart_interval = static_cast<unsigned>(encoding.restart_interval);
  if (encoding.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(encoding.width * encoding.components));
  while (info.next_scanline < info.image_height) {
    const int y = static_cast<int>(info.next_scanline);
    for (int x = 0; x < encoding.width; ++x) {
      for (int c = 0; c < encoding.components; ++c) {
        const int value = c == 0   ? x * 255 / encoding.width
                          : c == 1 ? y * 255 / encoding.height
                          : c == 2 ? 128
                                   : 255 - x * 64 / encoding.width;
        row[static_cast<std::size_t>(x * encoding.components + c)] = static_cast<std::uint8_t>(value);
      }
    }
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&info, &pointer, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<std::uint8_t> jpeg(bytes, bytes + size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return jpeg;
}

}  // namespace misfire::test
