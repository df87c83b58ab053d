// Goal: crops and flips are a pure function of (seed, epoch, sample), lie in the image, and follow the published rule.
// Method: many draws over image sizes; distributions against their expectation; the fallback on images no box fits.
#include "suites/dataloader/crop.hpp"

#include <cmath>
#include <set>
#include <utility>

#include "tests/check.hpp"

using namespace misfire;
using namespace misfire::dataloader;

namespace {

bool inside(const CropBox& box, int width, int height) {
  return box.width > 0 && box.height > 0 && box.x >= 0 && box.y >= 0 && box.x + box.width <= width &&
         box.y + box.height <= height;
}

TEST("boxes lie in the image, whatever its size") {
  Stream stream = Seed(1).stream("test");
  for (const auto& [width, height] :
       {std::pair{500, 375}, {375, 500}, {1, 1}, {2, 3}, {1, 1000}, {1000, 1}, {3000, 2000}, {7, 65500}}) {
    for (int i = 0; i < 500; ++i) CHECK(inside(random_resized_crop(stream, width, height), width, height));
    CHECK(inside(centre_crop(width, height, 224, 224), width, height));
    CHECK(inside(centre_crop(width, height, 224, 224, 1.0), width, height));
  }
}

TEST("area is uniform and ratio uniform in its logarithm, within the rule") {
  // A square image far larger than a box of any ratio at scale 0.5: no draw is rejected, so the distributions are the rule's.
  const CropRule rule{.scale_min = 0.1, .scale_max = 0.5};
  Stream stream = Seed(2).stream("test");
  const int size = 4000, draws = 20000;
  double area_sum = 0, log_ratio_sum = 0, area_low = 1, area_high = 0;
  for (int i = 0; i < draws; ++i) {
    const CropBox box = random_resized_crop(stream, size, size, rule);
    const double area = static_cast<double>(box.width) * box.height / size / size;
    const double ratio = static_cast<double>(box.width) / box.height;
    CHECK(ratio > 0.749 && ratio < 1.335);
    area_sum += area;
    log_ratio_sum += std::log(ratio);
    area_low = std::min(area_low, area);
    area_high = std::max(area_high, area);
  }
  CHECK_NEAR(area_sum / draws, 0.3, 0.004);  // sd of the mean 0.0008
  CHECK_NEAR(log_ratio_sum / draws, 0.0, 0.006);
  CHECK_NEAR(area_low, 0.1, 0.002);
  CHECK_NEAR(area_high, 0.5, 0.002);
}

TEST("where no box fits, the largest centred one of an allowed ratio is taken") {
  Stream stream = Seed(3).stream("test");
  CHECK((random_resized_crop(stream, 1000, 10, {.scale_min = 1, .scale_max = 1}) == CropBox{493, 0, 13, 10}));
  CHECK((random_resized_crop(stream, 10, 1000, {.scale_min = 1, .scale_max = 1}) == CropBox{0, 493, 10, 13}));
  CHECK((random_resized_crop(stream, 400, 400, {.scale_min = 1, .scale_max = 1, .ratio_min = 1, .ratio_max = 1}) ==
         CropBox{0, 0, 400, 400}));
}

TEST("the centre crop keeps what resizing to 256 and cutting 224 keeps") {
  CHECK((centre_crop(500, 375, 224, 224) == CropBox{86, 23, 328, 328}));
  CHECK((centre_crop(224, 224, 224, 224, 1.0) == CropBox{0, 0, 224, 224}));
}

TEST("a sample's augmentation depends on seed, epoch and sample alone") {
  const Augmentation first = draw_augmentation(Seed(7), 3, 11, 500, 375);
  for (std::uint64_t other = 0; other < 50; ++other) draw_augmentation(Seed(7), other, other, 500, 375);
  const Augmentation again = draw_augmentation(Seed(7), 3, 11, 500, 375);
  CHECK(first.box == again.box);
  CHECK_EQ(first.flip, again.flip);
  std::set<std::pair<int, int>> boxes;
  for (std::uint64_t i = 0; i < 20; ++i) {
    for (const Augmentation& a : {draw_augmentation(Seed(7), i, 0, 500, 375), draw_augmentation(Seed(7), 1000, i, 500, 375),
                                  draw_augmentation(Seed(100 + i), 0, 0, 500, 375)}) {
      boxes.insert({a.box.x * 1000 + a.box.width, a.box.y * 1000 + a.box.height});
    }
  }
  CHECK(boxes.size() > 55);
}

TEST("one in two is flipped") {
  int flips = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) flips += draw_augmentation(Seed(5), 0, i, 500, 375).flip;
  CHECK_NEAR(flips, 5000, 250);  // five standard deviations
}

}  // namespace
