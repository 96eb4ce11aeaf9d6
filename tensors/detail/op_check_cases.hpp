#pragma once

#include "troupe/tensors/op.hpp"

#include <string>
#include <vector>

// The checks of which `check_op` consists. Each returns one text for each
// failure.

namespace troupe::detail {

/// An op and the index of one of its cases.
struct tried_op {
  const op* definition = nullptr;
  std::size_t index = 0;

  const op_case& tested_case() const { return definition->cases[index]; }
  std::uint32_t seed() const {
    return 1'000 + static_cast<std::uint32_t>(index);
  }
  bool has_kernels() const {
    return !definition->is_reshape && !definition->view;
  }
  bool differentiable() const {
    return definition->reference_backward != nullptr;
  }
  /// Returns a name with the shapes of the inputs and the seed.
  std::string description() const;
};

/// Draws inputs for a case. float32 represents the values exactly, and none is
/// near a nondifferentiable point of the op.
std::vector<tensor> draw(const tried_op& x, dtype type);

/// Draws a tensor from [-1, 1).
tensor draw_like(const tensor_spec& spec, std::uint32_t seed);

/// Runs the kernels of an op directly, without a tape.
struct run_of_op {
  /// Runs the forward kernel for the dtype of the inputs.
  run_of_op(const tried_op& x, std::vector<tensor> inputs);
  run_of_op(const run_of_op&) = delete;
  run_of_op& operator=(const run_of_op&) = delete;

  /// Returns the gradients of the inputs, given the gradient of the output. Bit
  /// i of `wanted` requests the gradient of input i. If `add` is true, each
  /// gradient is added to a tensor of ones.
  std::vector<tensor> backward(const tensor& grad_out, unsigned wanted = ~0u,
                               bool add = false);

  const op* definition;
  std::vector<tensor> in;
  bool wide = false; ///< True: the inputs are float64.
  op_call call;
};

/// Compares the float64 gradient with central differences of the reference.
std::vector<std::string> check_reference_gradient(const tried_op& x);

/// Compares the float32 kernels with the float64 reference.
std::vector<std::string> check_kernels(const tried_op& x);

/// Checks that backward kernels add to a gradient.
std::vector<std::string> check_accumulation(const tried_op& x);

/// Checks that a gradient has the same bits if it is the only one that is
/// requested.
std::vector<std::string> check_requested_gradients(const tried_op& x);

/// Checks that inputs that are not aligned change no bit.
std::vector<std::string> check_displaced_inputs(const tried_op& x);

} // namespace troupe::detail
