// Goal: decoding a crop by region and scale gives what decoding everything gives; bad files are named, and never crash.
// Method: decode_crop against decode_full over many boxes; files of every kind made with libjpeg; files cut at every length and
// with bytes changed.
#include "suites/dataloader/jpeg.hpp"

#include <algorithm>
#include <cmath>

#include "suites/dataloader/synthetic.hpp"
#include "tests/check.hpp"
#include "tests/suites/images/encode.hpp"

using namespace misfire;
using namespace misfire::dataloader;
using misfire::test::encode;
using Bytes = std::vector<std::uint8_t>;

namespace {

Bytes synthetic(int width, int height, std::uint64_t seed = 1) {
  Bytes jpeg;
  make_synthetic_jpeg(Seed(seed).stream("image"), {.width = width, .height = height, .bytes_per_pixel = 0.2}, jpeg);
  return jpeg;
}

double psnr(const Bytes& a, const Bytes& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return sum == 0 ? 200 : 10 * std::log10(255.0 * 255.0 / (sum / static_cast<double>(a.size())));
}

Bytes decode(JpegDecoder& decoder, const Bytes& jpeg, const CropBox& box, int width, int height, bool flip = false,
             bool full = false) {
  Bytes out(static_cast<std::size_t>(width * height * 3));
  const DecodeResult result =
      full ? decoder.decode_full(jpeg, box, width, height, flip, out) : decoder.decode_crop(jpeg, box, width, height, flip, out);
  CHECK_EQ(decode_status_name(result.status), "ok");
  CHECK_EQ(result.message, "");
  return out;
}

DecodeResult attempt(JpegDecoder& decoder, const Bytes& jpeg, const CropBox& box = {0, 0, 8, 8}) {
  Bytes out(16 * 16 * 3);
  return decoder.decode_crop(jpeg, box, 16, 16, false, out);
}

TEST("at full scale, decoding a region is bit for bit decoding everything") {
  JpegDecoder decoder({.scaled = false});
  const Bytes jpeg = synthetic(500, 375);
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Augmentation a = draw_augmentation(Seed(3), i, 0, 500, 375);
    CHECK(decode(decoder, jpeg, a.box, 112, 96, a.flip) == decode(decoder, jpeg, a.box, 112, 96, a.flip, true));
  }
  for (const CropBox& box : {CropBox{0, 0, 1, 1},
                             {499, 374, 1, 1},
                             {0, 0, 500, 375},
                             {15, 15, 2, 2},
                             {16, 16, 16, 16},
                             {31, 0, 1, 375},
                             {0, 31, 500, 1},
                             {484, 360, 16, 15}}) {
    CHECK(decode(decoder, jpeg, box, 9, 7) == decode(decoder, jpeg, box, 9, 7, false, true));
  }
}

TEST("the same for other samplings, restarts, progressive and grey files") {
  JpegDecoder decoder({.scaled = false});
  for (const test::Encoding& encoding : {test::Encoding{.width = 203, .height = 117, .full_chroma = true},
                                         {.width = 203, .height = 117, .restart_interval = 3},
                                         {.width = 203, .height = 117, .progressive = true},
                                         {.width = 203, .height = 117, .components = 1},
                                         {.width = 203, .height = 117, .components = 4}}) {
    const Bytes jpeg = encode(encoding);
    for (std::uint64_t i = 0; i < 15; ++i) {
      const Augmentation a = draw_augmentation(Seed(3), i, 0, 203, 117);
      CHECK(decode(decoder, jpeg, a.box, 64, 64, a.flip) == decode(decoder, jpeg, a.box, 64, 64, a.flip, true));
    }
  }
}

TEST("scaled decoding stays within 38 dB of decoding everything, and is used only when it suffices") {
  JpegDecoder decoder;
  double worst = 200;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const Bytes jpeg = synthetic(1024, 768, i);
    const CropBox centre = centre_crop(1024, 768, 224, 224);
    worst = std::min(worst, psnr(decode(decoder, jpeg, centre, 224, 224), decode(decoder, jpeg, centre, 224, 224, false, true)));
    for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
      const Augmentation a = draw_augmentation(Seed(4), epoch, i, 1024, 768);
      const Bytes part = decode(decoder, jpeg, a.box, 224, 224, a.flip),
                  all = decode(decoder, jpeg, a.box, 224, 224, a.flip, true);
      if (a.box.width < 448 || a.box.height < 448) CHECK(part == all);
      worst = std::min(worst, psnr(part, all));
    }
  }
  CHECK(worst >= 38);
  CHECK(worst < 200);  // that scaled decoding was used at all
}

TEST("a flip mirrors the result exactly") {
  JpegDecoder decoder;
  const Bytes jpeg = synthetic(500, 375);
  const Bytes plain = decode(decoder, jpeg, {37, 20, 300, 280}, 61, 50),
              flipped = decode(decoder, jpeg, {37, 20, 300, 280}, 61, 50, true);
  int differences = 0;
  for (int y = 0; y < 50; ++y) {
    for (int x = 0; x < 61; ++x) {
      for (int c = 0; c < 3; ++c)
        differences += std::abs(plain[static_cast<std::size_t>((y * 61 + x) * 3 + c)] -
                                flipped[static_cast<std::size_t>((y * 61 + 60 - x) * 3 + c)]) > 1;
    }
  }
  CHECK_EQ(differences, 0);
  CHECK(plain != flipped);
}

TEST("the header says what the file is") {
  JpegDecoder decoder;
  JpegHeader header;
  CHECK(decoder.read_header(encode({.width = 33, .height = 21, .progressive = true}), header));
  CHECK_EQ(header.width, 33);
  CHECK_EQ(header.height, 21);
  CHECK_EQ(header.components, 3);
  CHECK(header.progressive);
  CHECK(decoder.read_header(encode({.components = 4}), header));
  CHECK_EQ(header.components, 4);
  CHECK(!header.progressive);
  CHECK(!decoder.read_header(Bytes{}, header));
}

TEST("grey becomes three equal channels, CMYK becomes the colours it stands for") {
  JpegDecoder decoder;
  const Bytes grey = decode(decoder, encode({.components = 1}), {0, 0, 64, 48}, 64, 48);
  for (std::size_t i = 0; i < grey.size(); i += 3) CHECK(grey[i] == grey[i + 1] && grey[i] == grey[i + 2]);
  CHECK(grey[3] < 30 && grey[62 * 3] > 220);  // dark at the left, light at the right
  // The pattern's ink, without Adobe's inversion: cyan grows to the right, so red falls.
  for (const bool ycck : {false, true}) {
    for (const bool adobe : {true, false}) {
      if (ycck && !adobe) continue;  // without the marker YCCK cannot be told from CMYK
      const Bytes colour = decode(decoder, encode({.components = 4, .ycck = ycck, .adobe = adobe}), {0, 0, 64, 48}, 64, 48);
      const std::size_t at = (24 * 64 + 60) * 3;  // c = 239, m = 127, y = 128, k = 195
      const int expected_red = adobe ? 239 * 195 / 255 : 16 * 60 / 255, expected_green = adobe ? 127 * 195 / 255 : 128 * 60 / 255;
      CHECK_NEAR(static_cast<int>(colour[at]), expected_red, 8);
      CHECK_NEAR(static_cast<int>(colour[at + 1]), expected_green, 8);
    }
  }
}

TEST("grey and CMYK are refused when asked") {
  JpegDecoder decoder({.accept_grey = false, .accept_cmyk = false});
  for (const int components : {1, 4}) {
    const DecodeResult result = attempt(decoder, encode({.components = components}));
    CHECK_EQ(decode_status_name(result.status), "refused");
    CHECK(result.message.find("refused by option") != std::string::npos);
  }
  CHECK(attempt(decoder, encode({})));
}

TEST("files that are no images are told apart, and the decoder goes on") {
  JpegDecoder decoder;
  CHECK_EQ(decode_status_name(attempt(decoder, {}).status), "empty");
  CHECK_EQ(decode_status_name(attempt(decoder, {0x89, 'P', 'N', 'G', 13, 10, 26, 10}).status), "not_jpeg");
  CHECK_EQ(decode_status_name(attempt(decoder, Bytes(1000, 0)).status), "not_jpeg");
  CHECK_EQ(decode_status_name(attempt(decoder, {0xFF}).status), "not_jpeg");
  CHECK_EQ(decode_status_name(attempt(decoder, {0xFF, 0xD8}).status), "truncated");
  CHECK_EQ(decode_status_name(attempt(decoder, {0xFF, 0xD8, 0xFF, 0xD9}).status), "corrupt");
  CHECK(!attempt(decoder, {}).message.empty());
  CHECK(attempt(decoder, encode({})));
}

TEST("a file cut anywhere is truncated, whichever part of it a crop needs") {
  JpegDecoder decoder;
  for (const bool progressive : {false, true}) {
    const Bytes whole = encode({.progressive = progressive});
    for (std::size_t size = 2; size + 1 < whole.size(); size += 7) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      const DecodeResult result = attempt(decoder, cut);  // the top left corner
      CHECK(result.status == DecodeStatus::truncated);
    }
    Bytes longer = whole;
    longer.insert(longer.end(), 100, 0);  // padding after the end is harmless
    CHECK(attempt(decoder, longer));
  }
}

TEST("damaged image data is corrupt") {
  JpegDecoder decoder;
  Bytes jpeg = encode({.width = 256, .height = 256, .restart_interval = 4});
  int corrupt = 0;
  Stream stream = Seed(6).stream("damage");
  for (int i = 0; i < 200; ++i) {
    Bytes damaged = jpeg;
    for (int k = 0; k < 40; ++k) damaged[700 + stream.below(damaged.size() - 702)] = static_cast<std::uint8_t>(stream());
    Bytes out(16 * 16 * 3);
    const DecodeResult result = decoder.decode_crop(damaged, {0, 0, 256, 256}, 16, 16, false, out);
    corrupt += result.status == DecodeStatus::corrupt;
    if (!result) CHECK(!result.message.empty());
  }
  CHECK(corrupt > 150);
  CHECK(attempt(decoder, jpeg));
}

TEST("no damage crashes it") {
  JpegDecoder decoder({.max_pixels = 1 << 22});
  Stream stream = Seed(8).stream("damage");
  for (const test::Encoding& encoding :
       {test::Encoding{}, {.progressive = true}, {.components = 1}, {.components = 4, .ycck = true}, {.restart_interval = 2}}) {
    const Bytes jpeg = encode(encoding);
    for (int i = 0; i < 600; ++i) {
      Bytes damaged = jpeg;
      for (std::uint64_t k = 0, count = 1 + stream.below(6); k < count; ++k)
        damaged[stream.below(damaged.size())] = static_cast<std::uint8_t>(stream());
      if (stream.below(4) == 0) damaged.resize(stream.below(damaged.size()));
      JpegHeader header;
      CropBox box{0, 0, 8, 8};
      if (decoder.read_header(damaged, header))
        box = draw_augmentation(Seed(9), 0, static_cast<std::uint64_t>(i), header.width, header.height).box;
      const DecodeResult result = attempt(decoder, damaged, box);
      CHECK(result.status != DecodeStatus::bad_request || header.width < 8 || header.height < 8);
    }
  }
}

TEST("an image that claims to be huge is refused before memory is taken") {
  JpegDecoder decoder;
  Bytes jpeg = encode({});
  for (std::size_t i = 0; i + 9 < jpeg.size(); ++i) {
    if (jpeg[i] == 0xFF && jpeg[i + 1] == 0xC0) {
      jpeg[i + 5] = jpeg[i + 7] = 0xFF;  // height and width
      break;
    }
  }
  const DecodeResult result = attempt(decoder, jpeg);
  CHECK_EQ(decode_status_name(result.status), "refused");
  CHECK(result.message.find("max_pixels") != std::string::npos);
}

TEST("boxes and memory that do not fit are said to be so") {
  JpegDecoder decoder;
  const Bytes jpeg = encode({});
  Bytes out(16 * 16 * 3);
  for (const CropBox& box : {CropBox{0, 0, 65, 48}, {-1, 0, 8, 8}, {60, 0, 5, 5}, {0, 0, 0, 8}, {0, 2147483647, 8, 8}}) {
    CHECK(decoder.decode_crop(jpeg, box, 16, 16, false, out).status == DecodeStatus::bad_request);
  }
  CHECK(decoder.decode_crop(jpeg, {0, 0, 8, 8}, 16, 17, false, out).status == DecodeStatus::bad_request);
  CHECK(decoder.decode_crop(jpeg, {0, 0, 8, 8}, -16, -16, false, out).status == DecodeStatus::bad_request);
  CHECK(decoder.decode_crop(jpeg, {0, 0, 8, 8}, 16, 16, false, out));
}

TEST("the encoder refuses what does not fit") {
  Bytes jpeg;
  CHECK_THROWS(encode_jpeg(Bytes(10), 2, 2, 90, jpeg), "does not fit 10 bytes");
  CHECK_THROWS(encode_jpeg(Bytes(12), 2, 2, 0, jpeg), "quality 0");
  encode_jpeg(Bytes(12, 200), 2, 2, 90, jpeg);
  JpegDecoder decoder;
  const Bytes out = decode(decoder, jpeg, {0, 0, 2, 2}, 2, 2);
  CHECK_NEAR(static_cast<int>(out[0]), 200, 2);
}

TEST("synthetic images have the size they were asked for, and repeat") {
  for (const double wanted : {0.1, 0.2, 0.4}) {
    Bytes jpeg, again;
    make_synthetic_jpeg(Seed(1).stream("x"), {.width = 500, .height = 375, .bytes_per_pixel = wanted}, jpeg);
    make_synthetic_jpeg(Seed(1).stream("x"), {.width = 500, .height = 375, .bytes_per_pixel = wanted}, again);
    CHECK(jpeg == again);
    CHECK_NEAR(static_cast<double>(jpeg.size()) / (500 * 375) / wanted, 1.0, 0.15);
  }
}

}  // namespace
