#include "kernels/host/training.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "harness/error.hpp"

// On x86-64 products are also compiled for wider vectors and chosen when the program starts; everywhere else, and under
// sanitizers (whose runtime is not up when the choice is made), the baseline of the target serves.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MISFIRE_WIDEST __attribute__((target_clones("default", "avx2", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define MISFIRE_WIDEST
#endif

namespace misfire::training {
namespace {

constexpr int tile_rows = 4;
constexpr int vector_bytes = 64;  // split by the compiler into what the machine has

template <class T>
struct Vector;
template <>
struct Vector<float> {
  typedef float type __attribute__((vector_size(vector_bytes)));
};
template <>
struct Vector<double> {
  typedef double type __attribute__((vector_size(vector_bytes)));
};

/// A whole product: columns in the outer loop, so that a strip of b stays in the cache while all rows use it.
template <class T, class P>
inline __attribute__((always_inline)) void run(const P& product) {
  using V = typename Vector<T>::type;
  constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));
  int column = 0;
  for (; column + lanes <= product.columns; column += lanes) {
    int row = 0;
    for (; row + tile_rows <= product.rows; row += tile_rows) tile<tile_rows, V>(product, row, column);
    for (; row < product.rows; ++row) tile<1, V>(product, row, column);
  }
  for (; column < product.columns; ++column) {
    for (int row = 0; row < product.rows; ++row) tile<1, T>(product, row, column);
  }
}

template <class T>
inline __attribute__((always_inline)) void extract_features(const Model<T>& m, const std::uint8_t* images) {
  const std::size_t stride = static_cast<std::size_t>(m.width) * 3;
  std::vector<std::uint32_t> columns(stride);  // sums over the rows of one row of patches
  T* to = m.x;
  for (int n = 0; n < m.batch; ++n) {
    for (int top = 0; top < m.height; top += m.patch) {
      std::fill(columns.begin(), columns.end(), 0U);
      std::uint32_t* const sums = columns.data();
      for (int y = 0; y < m.patch; ++y, images += stride) {
        for (std::size_t i = 0; i < stride; ++i) sums[i] += images[i];
      }
      for (int left = 0; left < m.width; left += m.patch) {
        for (int channel = 0; channel < 3; ++channel) {
          std::uint32_t sum = 0;
          for (int k = 0; k < m.patch; ++k) sum += sums[static_cast<std::size_t>((left + k) * 3 + channel)];
          *to++ = feature<T>(sum, m.patch, channel);
        }
      }
    }
  }
}

template <class T>
inline __attribute__((always_inline)) void run_forward(const Model<T>& m, const std::uint8_t* images,
                                                       const std::int32_t* labels) {
  extract_features(m, images);
  run<T>(ForwardHidden<T>(m));
  for (int n = 0; n < m.batch; ++n) {
    for (int c = 0; c < m.classes; ++c)
      m.gradient_l[static_cast<std::ptrdiff_t>(n) * m.classes + c] = logit<typename Vector<T>::type>(m, n, c);
    softmax_cross_entropy(m, n, labels[n]);
  }
}

template <class T>
inline __attribute__((always_inline)) void run_backward(const Model<T>& m) {
  run<T>(BackwardHidden<T>(m));
  run<T>(update_w2(m));
  run<T>(update_w1(m));
  for (int j = 0; j < m.hidden; ++j) update_bias(m.b1, m.gradient_h, m.batch, m.hidden, j, m.learning_rate);
  for (int c = 0; c < m.classes; ++c) update_bias(m.b2, m.gradient_l, m.batch, m.classes, c, m.learning_rate);
}

MISFIRE_WIDEST void forward_float(const Model<float>& m, const std::uint8_t* images, const std::int32_t* labels) {
  run_forward(m, images, labels);
}
MISFIRE_WIDEST void backward_float(const Model<float>& m) { run_backward(m); }

}  // namespace

Layout::Layout(const TrainingShape& shape) {
  const auto batch = static_cast<std::size_t>(shape.batch), features = static_cast<std::size_t>(shape.features()),
             hidden = static_cast<std::size_t>(shape.hidden), classes = static_cast<std::size_t>(shape.classes);
  w1 = 0;
  b1 = w1 + features * hidden;
  w2 = b1 + hidden;
  b2 = w2 + classes * hidden;
  x = b2 + classes;
  h = x + batch * features;
  gradient_h = h + batch * hidden;
  gradient_l = gradient_h + batch * hidden;
  losses = gradient_l + batch * classes;
  total = losses + batch;
}

void check_shape(const TrainingShape& shape) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::invalid_input, "training step: " + what); };
  if (shape.batch < 1 || shape.batch > 65536) refuse("batch is " + std::to_string(shape.batch) + ", must be 1 to 65536");
  if (shape.height < 1 || shape.width < 1 || shape.height > 16384 || shape.width > 16384)
    refuse("images must be 1 to 16384 pixels high and wide");
  if (shape.patch < 1 || shape.patch > 4096 || shape.height % shape.patch != 0 || shape.width % shape.patch != 0) {
    refuse("patch is " + std::to_string(shape.patch) + ", must divide height " + std::to_string(shape.height) + " and width " +
           std::to_string(shape.width));
  }
  if (shape.hidden < 1 || shape.hidden > 1 << 20) refuse("hidden is " + std::to_string(shape.hidden) + ", must be 1 to 1048576");
  if (shape.classes < 2 || shape.classes > 1 << 16)
    refuse("classes is " + std::to_string(shape.classes) + ", must be 2 to 65536");
  if (!(shape.learning_rate >= 0) || !std::isfinite(shape.learning_rate)) refuse("learning_rate must not be negative");
}

void check_labels(const TrainingShape& shape, std::span<const std::int32_t> labels) {
  if (labels.size() != static_cast<std::size_t>(shape.batch)) {
    throw Error(ErrorCode::invalid_input,
                "training step: " + std::to_string(labels.size()) + " labels for a batch of " + std::to_string(shape.batch));
  }
  for (const std::int32_t label : labels) {
    if (label < 0 || label >= shape.classes) {
      throw Error(ErrorCode::invalid_input,
                  "training step: label " + std::to_string(label) + " is not below " + std::to_string(shape.classes));
    }
  }
}

template <class T>
Model<T> model_at(const TrainingShape& shape, T* memory) {
  const Layout at(shape);
  return {.batch = shape.batch,
          .height = shape.height,
          .width = shape.width,
          .patch = shape.patch,
          .features = shape.features(),
          .hidden = shape.hidden,
          .classes = shape.classes,
          .learning_rate = static_cast<T>(shape.learning_rate),
          .w1 = memory + at.w1,
          .b1 = memory + at.b1,
          .w2 = memory + at.w2,
          .b2 = memory + at.b2,
          .x = memory + at.x,
          .h = memory + at.h,
          .gradient_h = memory + at.gradient_h,
          .gradient_l = memory + at.gradient_l,
          .losses = memory + at.losses};
}

std::vector<float> first_parameters(const TrainingShape& shape, Seed seed) {
  const Layout at(shape);
  std::vector<float> values(at.parameters(), 0.0F);
  Stream stream = seed.stream("parameters");
  const auto fill = [&](std::size_t begin, std::size_t end, int inputs) {
    const double deviation = std::sqrt(2.0 / inputs);
    for (std::size_t i = begin; i < end; ++i) {  // Box and Muller
      const double radius = std::sqrt(-2 * std::log(1 - stream.uniform()));
      values[i] = static_cast<float>(deviation * radius * std::cos(2 * std::numbers::pi * stream.uniform()));
    }
  };
  fill(at.w1, at.b1, shape.features());
  fill(at.w2, at.b2, shape.hidden);
  return values;
}

template <class T>
void forward(const Model<T>& model, const std::uint8_t* images, const std::int32_t* labels) {
  if constexpr (std::is_same_v<T, float>) {
    forward_float(model, images, labels);
  } else {
    run_forward(model, images, labels);
  }
}

template <class T>
void backward_and_update(const Model<T>& model) {
  if constexpr (std::is_same_v<T, float>) {
    backward_float(model);
  } else {
    run_backward(model);
  }
}

template Model<float> model_at(const TrainingShape&, float*);
template Model<double> model_at(const TrainingShape&, double*);
template void forward(const Model<float>&, const std::uint8_t*, const std::int32_t*);
template void forward(const Model<double>&, const std::uint8_t*, const std::int32_t*);
template void backward_and_update(const Model<float>&);
template void backward_and_update(const Model<double>&);

}  // namespace misfire::training
