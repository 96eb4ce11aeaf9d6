#pragma once

#include "troupe/tensors/op.hpp"

#include <span>

namespace troupe::cuda {

/// An op and its kernels for CUDA devices.
struct kernels_of_op {
  const op* definition;
  std::span<const op_kernels> rows;
};

// Each function returns the kernels of the ops in the file of the same name.

std::span<const kernels_of_op> binary_kernels();
std::span<const kernels_of_op> concat_kernels();
std::span<const kernels_of_op> dense_kernels();
std::span<const kernels_of_op> dropout_kernels();
std::span<const kernels_of_op> embedding_lookup_kernels();
std::span<const kernels_of_op> reduce_kernels();
std::span<const kernels_of_op> sigmoid_cross_entropy_kernels();
std::span<const kernels_of_op> softmax_cross_entropy_kernels();
std::span<const kernels_of_op> unary_kernels();

std::span<const op_kernels> conv2d_kernels();
std::span<const op_kernels> conv2d_max_pool_kernels();
std::span<const op_kernels> max_pool2d_kernels();

} // namespace troupe::cuda
