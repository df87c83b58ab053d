// Goal: the hidden width sets the cost of a step on the host device, from about a millisecond to tens of them.
// Method: medians of device time by events, batch 8 and 32 at 224 x 224; only the span and the order are asserted.
#include <algorithm>
#include <cstdio>

#include "kernels/devices.hpp"
#include "tests/check.hpp"

using namespace misfire;

namespace {

double step_seconds(int batch, int hidden) {
  const auto device = make_device("host");
  const auto queue = device->make_queue();
  const auto step = device->make_training_step({.batch = batch, .hidden = hidden}, Seed(1));
  const DeviceMemory images = device->allocate(static_cast<std::uint64_t>(batch) * 224 * 224 * 3);
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(batch), 1);
  const auto begin = device->make_event(), end = device->make_event();
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) {
    queue->record(*begin);
    step->enqueue(*queue, images, labels);
    queue->record(*end);
    end->wait();
    seconds.push_back(to_seconds(end->since(*begin)));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

TEST("a step costs from about one to fifty milliseconds, by the hidden width") {
  double seconds[2][4];
  for (const int b : {0, 1}) {
    for (int h = 0; h < 4; ++h) {
      const int batch = b ? 32 : 8, hidden = 64 << (2 * h);
      seconds[b][h] = step_seconds(batch, hidden);
      std::printf("batch %2d hidden %4d: %.2f ms\n", batch, hidden, seconds[b][h] * 1e3);
      if (h > 0) CHECK(seconds[b][h] > seconds[b][h - 1]);
    }
  }
  CHECK(seconds[0][0] < 0.002);
  CHECK(step_seconds(32, 16384) > 0.020);
}

}  // namespace
