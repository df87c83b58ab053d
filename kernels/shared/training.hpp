#pragma once

// Arithmetic of one training step, written once and run by every device.
//
// Each product of the step is a small struct that says which operands it has and what becomes of a sum. A device goes through
// its (row, column) pairs as suits it: the host in tiles with several columns to a vector, a GPU with one thread to a pair.
// Sums run over the inner index in order, so devices differ by the contraction of multiply and add at most.
//
// Model: features = patch averages of the normalised image; hidden = max(0, features w1 + b1); logits = hidden w2' + b2;
// loss = mean over the batch of -log softmax(logits)[label]; plain gradient descent.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define MISFIRE_ON_DEVICE __host__ __device__ __forceinline__
#else
#define MISFIRE_ON_DEVICE inline __attribute__((always_inline))
#endif

namespace misfire::training {

/// Sizes, parameters and intermediate values. All matrices are row-major; memory belongs to somebody else.
template <class T>
struct Model {
  int batch, height, width, patch, features, hidden, classes;
  T learning_rate;
  T* w1;          // [features, hidden]
  T* b1;          // [hidden]
  T* w2;          // [classes, hidden]
  T* b2;          // [classes]
  T* x;           // [batch, features]
  T* h;           // [batch, hidden], after the rectifier
  T* gradient_h;  // [batch, hidden]
  T* gradient_l;  // [batch, classes]: logits first, then the loss's gradient by them
  T* losses;      // [batch]
};

/// One feature from the sum of a patch's bytes in one channel. Averaging and normalising are both linear: the order is free.
/// @source mean and deviation of ImageNet's channels, as torchvision's pretrained models use them
template <class T>
MISFIRE_ON_DEVICE T feature(std::uint32_t sum, int patch, int channel) {
  const T mean = channel == 0 ? T(0.485) : channel == 1 ? T(0.456) : T(0.406);
  const T deviation = channel == 0 ? T(0.229) : channel == 1 ? T(0.224) : T(0.225);
  return (T(sum) / T(255 * patch * patch) - mean) / deviation;
}

/// Sum over k of a[row, k] * b[k, column], for `rows` rows and the columns of one V (a T, or a vector of them).
template <class T>
struct Product {
  int rows, columns, count;
  const T* a;
  std::ptrdiff_t a_row, a_step;  // a[row, k] is at row * a_row + k * a_step
  const T* b;
  std::ptrdiff_t b_row;  // b[k, column] is at k * b_row + column
};

template <class V, class T>
MISFIRE_ON_DEVICE void load(V& to, const T* from) {
  memcpy(&to, from, sizeof(V));
}
template <class V, class T>
MISFIRE_ON_DEVICE void store(T* to, const V& from) {
  memcpy(to, &from, sizeof(V));
}

/// Sums a tile of a product and hands each row of it to product.put(row, column, sum).
template <int rows, class V, class P>
MISFIRE_ON_DEVICE void tile(const P& product, int row, int column) {
  V sum[rows] = {};
  const auto* a = product.a + row * product.a_row;
  const auto* b = product.b + column;
  for (int k = 0; k < product.count; ++k) {
    V factor;
    load(factor, b + k * product.b_row);
    for (int r = 0; r < rows; ++r) sum[r] += a[r * product.a_row + k * product.a_step] * factor;
  }
  for (int r = 0; r < rows; ++r) product.put(row + r, column, sum[r]);
}

/// hidden = max(0, x w1 + b1)
template <class T>
struct ForwardHidden : Product<T> {
  Model<T> m;
  MISFIRE_ON_DEVICE explicit ForwardHidden(const Model<T>& model)
      : Product<T>{model.batch, model.hidden, model.features, model.x, model.features, 1, model.w1, model.hidden}, m(model) {}
  template <class V>
  MISFIRE_ON_DEVICE void put(int row, int column, const V& sum) const {
    V bias;
    load(bias, m.b1 + column);
    const V value = sum + bias;
    store(m.h + static_cast<std::ptrdiff_t>(row) * m.hidden + column, value > V{} ? value : V{});
  }
};

/// gradient_h = (gradient_l w2) where the rectifier let values through. Must come before w2 changes.
template <class T>
struct BackwardHidden : Product<T> {
  Model<T> m;
  MISFIRE_ON_DEVICE explicit BackwardHidden(const Model<T>& model)
      : Product<T>{model.batch, model.hidden, model.classes, model.gradient_l, model.classes, 1, model.w2, model.hidden},
        m(model) {}
  template <class V>
  MISFIRE_ON_DEVICE void put(int row, int column, const V& sum) const {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * m.hidden + column;
    V value;
    load(value, m.h + at);
    store(m.gradient_h + at, value > V{} ? sum : V{});
  }
};

/// target -= learning_rate * (a b): the gradient of a weight matrix is used as soon as it is known.
template <class T>
struct Update : Product<T> {
  T* target;
  T learning_rate;
  MISFIRE_ON_DEVICE Update(const Product<T>& product, T* parameters, T rate)
      : Product<T>(product), target(parameters), learning_rate(rate) {}
  template <class V>
  MISFIRE_ON_DEVICE void put(int row, int column, const V& sum) const {
    T* const at = target + static_cast<std::ptrdiff_t>(row) * this->columns + column;
    V value;
    load(value, at);
    value -= learning_rate * sum;
    store(at, value);
  }
};

/// w1 -= learning_rate * x' gradient_h
template <class T>
MISFIRE_ON_DEVICE Update<T> update_w1(const Model<T>& m) {
  return {{m.features, m.hidden, m.batch, m.x, 1, m.features, m.gradient_h, m.hidden}, m.w1, m.learning_rate};
}
/// w2 -= learning_rate * gradient_l' hidden
template <class T>
MISFIRE_ON_DEVICE Update<T> update_w2(const Model<T>& m) {
  return {{m.classes, m.hidden, m.batch, m.gradient_l, 1, m.classes, m.h, m.hidden}, m.w2, m.learning_rate};
}

/// The sum over the batch of column `column` of a [batch, columns] matrix, times the rate, taken from a bias.
template <class T>
MISFIRE_ON_DEVICE void update_bias(T* bias, const T* gradient, int batch, int columns, int column, T learning_rate) {
  T sum = 0;
  for (int n = 0; n < batch; ++n) sum += gradient[static_cast<std::ptrdiff_t>(n) * columns + column];
  bias[column] -= learning_rate * sum;
}

/// One logit: sum over the hidden values of one sample, times one row of w2. Partial sums in the lanes of V.
template <class V, class T>
MISFIRE_ON_DEVICE T logit(const Model<T>& m, int row, int label) {
  constexpr int lanes = sizeof(V) / sizeof(T);
  const T* const h = m.h + static_cast<std::ptrdiff_t>(row) * m.hidden;
  const T* const w = m.w2 + static_cast<std::ptrdiff_t>(label) * m.hidden;
  V sums = {};
  int k = 0;
  for (; k + lanes <= m.hidden; k += lanes) {
    V left, right;
    load(left, h + k);
    load(right, w + k);
    sums += left * right;
  }
  T part[lanes];
  memcpy(part, &sums, sizeof(V));
  T sum = m.b2[label];
  for (int lane = 0; lane < lanes; ++lane) sum += part[lane];
  for (; k < m.hidden; ++k) sum += h[k] * w[k];
  return sum;
}

/// Loss of one sample from its logits, and their gradient in their place: (softmax - one at the label) / batch.
template <class T>
MISFIRE_ON_DEVICE void softmax_cross_entropy(const Model<T>& m, int row, int label) {
  T* const values = m.gradient_l + static_cast<std::ptrdiff_t>(row) * m.classes;
  T largest = values[0];
  for (int c = 1; c < m.classes; ++c) largest = values[c] > largest ? values[c] : largest;
  const T wanted = values[label];
  T total = 0;
  for (int c = 0; c < m.classes; ++c) {
    values[c] = exp(values[c] - largest);
    total += values[c];
  }
  m.losses[row] = log(total) - (wanted - largest);
  for (int c = 0; c < m.classes; ++c) values[c] = (values[c] / total - (c == label ? T(1) : T(0))) / T(m.batch);
}

}  // namespace misfire::training
