#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/device.hpp"
#include "harness/seed.hpp"
#include "kernels/shared/training.hpp"

namespace misfire::training {

/// Floats (or doubles) that one model needs, parameters first; `Layout` says where each part begins.
struct Layout {
  explicit Layout(const TrainingShape& shape);
  std::size_t w1, b1, w2, b2, x, h, gradient_h, gradient_l, losses, total;
  std::size_t parameters() const { return x; }
};

/// @throws Error{invalid_input} naming what does not fit
void check_shape(const TrainingShape& shape);
void check_labels(const TrainingShape& shape, std::span<const std::int32_t> labels);

template <class T>
Model<T> model_at(const TrainingShape& shape, T* memory);

/// Random first parameters: normal with variance 2 / inputs, biases zero.
/// @source He, Zhang, Ren, Sun: Delving Deep into Rectifiers (ICCV 2015)
std::vector<float> first_parameters(const TrainingShape& shape, Seed seed);

/// The step on this CPU, in the calling thread. @param images u8 [batch, height, width, 3]
template <class T>
void forward(const Model<T>& model, const std::uint8_t* images, const std::int32_t* labels);
template <class T>
void backward_and_update(const Model<T>& model);

extern template Model<float> model_at(const TrainingShape&, float*);
extern template Model<double> model_at(const TrainingShape&, double*);
extern template void forward(const Model<float>&, const std::uint8_t*, const std::int32_t*);
extern template void forward(const Model<double>&, const std::uint8_t*, const std::int32_t*);
extern template void backward_and_update(const Model<float>&);
extern template void backward_and_update(const Model<double>&);

}  // namespace misfire::training
