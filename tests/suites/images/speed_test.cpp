// Goal: the speeds promised of image loading, as ratios taken in one run.
// Method: CPU time of this thread, arms interleaved, medians of the per-round ratios; every bound is printed with its value.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "harness/clock.hpp"
#include "harness/files.hpp"
#include "suites/dataloader/jpeg.hpp"
#include "suites/dataloader/photographs.hpp"
#include "tests/check.hpp"

using namespace misfire;
using namespace misfire::dataloader;

namespace {

std::vector<std::string> load(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const auto& path : paths) files.push_back(read_whole_file(path));
  return files;
}

std::span<const std::uint8_t> bytes(const std::string& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
}

double cpu_seconds(const std::function<void()>& work) {
  const std::int64_t begin = thread_cpu_ns();
  work();
  return static_cast<double>(thread_cpu_ns() - begin) * 1e-9;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

bool photographs_present() { return std::filesystem::exists("/usr/share/backgrounds/mate/nature"); }

/// CPU time for one pass over the files by decode_full and by decode_crop, same images and crops.
struct Pass {
  double full = 0, region = 0;
};
Pass decode_pass(JpegDecoder& decoder, const std::vector<std::string>& files, int round) {
  std::vector<std::uint8_t> out(224 * 224 * 3);
  Pass pass;
  for (int arm = 0; arm < 2; ++arm) {
    const bool full = (arm + round) % 2 == 0;
    (full ? pass.full : pass.region) = cpu_seconds([&] {
      for (std::size_t i = 0; i < files.size(); ++i) {
        JpegHeader header;
        CHECK(decoder.read_header(bytes(files[i]), header));
        const Augmentation a = draw_augmentation(Seed(1), static_cast<std::uint64_t>(round), i, header.width, header.height);
        CHECK(full ? decoder.decode_full(bytes(files[i]), a.box, 224, 224, a.flip, out)
                   : decoder.decode_crop(bytes(files[i]), a.box, 224, 224, a.flip, out));
      }
    });
  }
  return pass;
}

// The reference is as good as it can be made: the same resampling, and rows kept out of libjpeg-turbo's slow stores.
TEST("random resized crops by region and scale are at least 1.4 times as fast as decoding everything") {
  const TemporaryDirectory place;
  const DataSet set = prepare_photographs(place.path() + "/set", {.small = 96, .medium = 24, .large = 4}, Seed(1));
  const std::vector<std::string> files[3] = {load(set.small), load(set.medium), load(set.large)};
  JpegDecoder decoder;
  std::vector<double> ratios[3], all;
  for (int round = 0; round < 15; ++round) {
    Pass total;
    for (int c = 0; c < 3; ++c) {
      const Pass pass = decode_pass(decoder, files[c], round);
      ratios[c].push_back(pass.full / pass.region);
      total.full += pass.full;
      total.region += pass.region;
    }
    all.push_back(total.full / total.region);
  }
  std::printf("full / region, CPU time: small %.3f, medium %.3f, large %.3f, whole set %.3f (%s)\n", median(ratios[0]),
              median(ratios[1]), median(ratios[2]), median(all), set.origin.c_str());
  CHECK(median(ratios[0]) >= 1.2);  // here boxes are seldom large enough for a smaller scale, and entropy decoding dominates
  CHECK(median(ratios[1]) >= 1.4);
  CHECK(median(ratios[2]) >= 1.4);
  CHECK(median(all) >= 1.4);
}

TEST("synthetic images cost as much to decode as photographs, within ten per cent") {
  if (!photographs_present()) SKIP("mate-backgrounds is not installed");
  const TemporaryDirectory place;
  PhotographSpec spec{.small = 60, .medium = 30, .large = 4};
  const DataSet real = prepare_photographs(place.path() + "/real", spec, Seed(1));
  spec.origin = "synthetic";
  const DataSet made = prepare_photographs(place.path() + "/made", spec, Seed(1));
  JpegDecoder decoder;
  std::vector<std::uint8_t> out(224 * 224 * 3);
  const auto cost = [&](const std::vector<std::string>& files) {
    return cpu_seconds([&] {
      for (const auto& file : files) {
        JpegHeader header;
        CHECK(decoder.read_header(bytes(file), header));
        CHECK(decoder.decode_full(bytes(file), centre_crop(header.width, header.height, 224, 224), 224, 224, false, out));
      }
    });
  };
  for (const auto& [name, a, b] : {std::tuple{"small", &made.small, &real.small},
                                   {"medium", &made.medium, &real.medium},
                                   {"large", &made.large, &real.large}}) {
    const std::vector<std::string> synthetic = load(*a), photographs = load(*b);
    std::vector<double> ratios;
    for (int round = 0; round < 11; ++round) {
      const double first = cost(synthetic);
      ratios.push_back(first / cost(photographs));
    }
    std::printf("decode cost, synthetic / photographs, %s: %.3f\n", name, median(ratios));
    CHECK_NEAR(median(ratios), 1.0, 0.1);
  }
}

TEST("a set of 96 small, 24 medium and 4 large images is made in three seconds of CPU time, and found again in 20 ms") {
  const TemporaryDirectory place;
  for (const char* const origin : {"synthetic", "photographs"}) {
    if (origin == std::string_view("photographs") && !photographs_present()) continue;
    const std::string path = place.path() + "/" + origin;
    const PhotographSpec spec{.small = 96, .medium = 24, .large = 4, .origin = origin};
    const double made = cpu_seconds([&] { CHECK(!prepare_photographs(path, spec, Seed(1)).reused); });
    const double found = cpu_seconds([&] { CHECK(prepare_photographs(path, spec, Seed(1)).reused); });
    std::printf("%s: made in %.2f s, found again in %.2f ms\n", origin, made, found * 1e3);
    CHECK(made < 3);
    CHECK(found < 0.02);
  }
}

}  // namespace
