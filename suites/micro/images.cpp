// What an image costs: a random resized crop by decoding only what it needs, against decoding all of it, of the same files.
//
// The files are the small photographs of MISFIRE_DATA where they have been prepared, else synthetic images of like cost.

#include "suites/micro/images.hpp"

#include <benchmark/benchmark.h>
#include <cstdlib>
#include <filesystem>

#include "harness/clock.hpp"
#include "harness/files.hpp"
#include "harness/seed.hpp"
#include "suites/dataloader/crop.hpp"
#include "suites/dataloader/jpeg.hpp"
#include "suites/dataloader/synthetic.hpp"
#include "suites/micro/paired.hpp"

namespace misfire::micro {
namespace {

using Bytes = std::vector<std::uint8_t>;

}  // namespace

std::vector<std::vector<std::uint8_t>> images(std::string& origin) {
  std::vector<Bytes> files;
  if (const char* data = std::getenv("MISFIRE_DATA")) {
    std::vector<std::string> paths;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(std::string(data) + "/small", error))
      paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      const std::string text = read_whole_file(path);
      files.emplace_back(text.begin(), text.end());
    }
    origin = "prepared images";
  }
  if (!files.empty()) return files;
  origin = "synthetic images";
  for (std::uint64_t i = 0; i < 16; ++i) {
    Bytes jpeg;
    dataloader::make_synthetic_jpeg(Seed(1).stream("micro").substream(i), {}, jpeg);
    files.push_back(std::move(jpeg));
  }
  return files;
}

namespace {

void crop(benchmark::State& state) {
  constexpr int size = 224;
  std::string origin;
  const std::vector<Bytes> files = images(origin);
  dataloader::JpegDecoder decoder;
  Bytes out(size * size * 3);
  std::vector<dataloader::JpegHeader> headers(files.size());
  for (std::size_t i = 0; i < files.size(); ++i)
    if (!decoder.read_header(files[i], headers[i])) return state.SkipWithError("an image cannot be read");
  bool failed = false;
  const auto all = [&](bool whole) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const dataloader::Augmentation drawn = dataloader::draw_augmentation(Seed(2), 0, i, headers[i].width, headers[i].height);
      const auto result = whole ? decoder.decode_full(files[i], drawn.box, size, size, drawn.flip, out)
                                : decoder.decode_crop(files[i], drawn.box, size, size, drawn.flip, out);
      failed = failed || !result;
      benchmark::DoNotOptimize(out.data());
    }
  };
  const double count = static_cast<double>(files.size());
  compare(state, {{"crop", [&] { all(false); }, count}, {"whole", [&] { all(true); }, count}}, &thread_cpu_ns);
  if (failed) state.SkipWithError("an image could not be decoded");
  state.SetLabel(origin);
}

}  // namespace

void register_images() {
  benchmark::RegisterBenchmark("image/crop", crop)->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(0.3);
}

}  // namespace misfire::micro
