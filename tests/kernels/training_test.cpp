// Goal: the training step computes what its definition says, and its gradients are the derivatives of its loss.
// Method: in double, against finite differences; features against sums taken pixel by pixel; sizes that no vector divides.
#include "kernels/host/training.hpp"

#include <cmath>

#include "tests/check.hpp"

using namespace misfire;
using namespace misfire::training;

namespace {

std::vector<std::uint8_t> noise(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  Stream stream = Seed(3).stream("images");
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(stream());
  return bytes;
}

template <class T>
struct Case {
  TrainingShape shape;
  std::vector<T> memory;
  Model<T> model;
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;

  explicit Case(const TrainingShape& given) : shape(given), memory(Layout(given).total), model(model_at(shape, memory.data())) {
    const std::vector<float> first = first_parameters(shape, Seed(1));
    std::copy(first.begin(), first.end(), memory.begin());
    Stream stream = Seed(5).stream("biases");  // so that biases count
    for (std::size_t i = Layout(shape).b1; i < Layout(shape).w2; ++i) memory[i] = static_cast<T>(stream.uniform() - 0.5);
    images = noise(static_cast<std::size_t>(shape.batch * shape.height * shape.width * 3));
    for (int n = 0; n < shape.batch; ++n) labels.push_back(n % shape.classes);
  }
  double loss() {
    forward(model, images.data(), labels.data());
    double sum = 0;
    for (int n = 0; n < shape.batch; ++n) sum += static_cast<double>(model.losses[n]);
    return sum / shape.batch;
  }
};

const TrainingShape odd{.batch = 5, .height = 12, .width = 16, .patch = 4, .hidden = 19, .classes = 3, .learning_rate = 1};

TEST("gradients are the derivatives of the loss, for every parameter") {
  Case<double> c(odd);
  const std::size_t parameters = Layout(odd).parameters();
  const std::vector<double> before(c.memory.begin(), c.memory.begin() + static_cast<std::ptrdiff_t>(parameters));
  c.loss();
  backward_and_update(c.model);
  const std::vector<double> after(c.memory.begin(), c.memory.begin() + static_cast<std::ptrdiff_t>(parameters));
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < parameters; ++i) {
    const double gradient = before[i] - after[i];  // the rate is 1
    const double step = 1e-6;
    std::copy(before.begin(), before.end(), c.memory.begin());
    c.memory[i] = before[i] + step;
    const double above = c.loss();
    c.memory[i] = before[i] - step;
    const double below = c.loss();
    worst = std::max(worst, std::abs((above - below) / (2 * step) - gradient));
    largest = std::max(largest, std::abs(gradient));
  }
  CHECK(worst < 1e-7);
  CHECK(largest > 1e-2);  // the comparison is not of zeros
}

TEST("float and double agree") {
  Case<double> exact(odd);
  Case<float> c(odd);
  for (int step = 0; step < 3; ++step) {
    CHECK_NEAR(c.loss(), exact.loss(), 2e-5);
    backward_and_update(c.model);
    backward_and_update(exact.model);
  }
  for (std::size_t i = 0; i < Layout(odd).parameters(); ++i) CHECK_NEAR(static_cast<double>(c.memory[i]), exact.memory[i], 2e-4);
}

TEST("a feature is the mean of a patch's normalised pixels") {
  Case<double> c(odd);
  c.loss();
  const double mean[3] = {0.485, 0.456, 0.406}, deviation[3] = {0.229, 0.224, 0.225};
  for (int n = 0; n < odd.batch; ++n) {
    for (int py = 0; py < 3; ++py) {
      for (int px = 0; px < 4; ++px) {
        for (int channel = 0; channel < 3; ++channel) {
          double sum = 0;
          for (int y = 0; y < 4; ++y) {
            for (int x = 0; x < 4; ++x) {
              const auto at = static_cast<std::size_t>(((n * 12 + py * 4 + y) * 16 + px * 4 + x) * 3 + channel);
              sum += (c.images[at] / 255.0 - mean[channel]) / deviation[channel];
            }
          }
          CHECK_NEAR(c.model.x[n * 36 + (py * 4 + px) * 3 + channel], sum / 16, 1e-12);
        }
      }
    }
  }
}

TEST("the loss of untrained weights is near that of guessing, and large logits do not overflow") {
  Case<float> c({.batch = 8, .height = 16, .width = 16, .patch = 4, .hidden = 64, .classes = 10, .learning_rate = 0.1});
  std::fill(c.memory.begin(), c.memory.end(), 0.0F);
  CHECK_NEAR(c.loss(), std::log(10.0), 1e-5);
  std::fill_n(c.model.b2, 10, 0.0F);
  c.model.b2[3] = 5000;
  CHECK(std::isfinite(c.loss()));
}

TEST("shapes and labels that cannot be are refused by name") {
  CHECK_THROWS(check_shape({.patch = 15}), "patch is 15, must divide");
  CHECK_THROWS(check_shape({.batch = 0}), "batch is 0");
  CHECK_THROWS(check_shape({.hidden = 0}), "hidden is 0");
  CHECK_THROWS(check_shape({.classes = 1}), "classes is 1");
  CHECK_THROWS(check_shape({.learning_rate = -1}), "learning_rate");
  check_shape({});
  CHECK_THROWS(check_labels(odd, std::vector<std::int32_t>{0, 1, 2, 3, 0}), "label 3 is not below 3");
  CHECK_THROWS(check_labels(odd, std::vector<std::int32_t>{0}), "1 labels for a batch of 5");
  CHECK_THROWS(check_labels(odd, std::vector<std::int32_t>{0, 1, -1, 0, 0}), "label -1");
  check_labels(odd, std::vector<std::int32_t>{0, 1, 2, 1, 0});
}

}  // namespace
