#pragma once

#include "troupe/tensors/op.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// The checks of which `check_op` consists. Each returns one text for each
// failure.

namespace troupe::detail {

/// An op, the index of one of its cases, and the device whose kernels are
/// checked.
struct tried_op {
  const op* definition = nullptr;
  std::size_t index = 0;
  device on{};

  const op_case& tested_case() const { return definition->cases[index]; }
  std::uint32_t seed() const {
    return 1'000 + static_cast<std::uint32_t>(index);
  }
  bool has_kernels() const {
    return !definition->is_reshape && !definition->view;
  }
  /// True if there is a gradient that a kernel computes.
  bool differentiable() const {
    const auto* const reference = definition->find_kernels(dtype::float64);
    return reference && reference->backward;
  }
  /// Dtypes for which the device has kernels; those of an op without kernels.
  std::vector<dtype> types() const;
  /// Returns the same case on the CPU.
  tried_op on_cpu() const { return {definition, index}; }
  /// Returns a name with the shapes of the inputs and the seed.
  std::string description() const;
};

/// Draws inputs for a case. float32 represents the values exactly, and none is
/// near a nondifferentiable point of the op.
/// @param type The dtype of the call.
/// @param own Selects the dtypes of inputs that have several of their own.
std::vector<tensor> draw(const tried_op& x, dtype type, std::size_t own = 0);

/// Number of values of `own` with which `draw` gives different dtypes.
std::size_t own_dtype_choices(const tried_op& x);

/// Draws a tensor from [-1, 1). Empty: `output` has no gradient.
tensor draw_gradient(const op_output& output, std::uint32_t seed);

/// Runs the kernels of an op directly, without a tape. Tensors that it takes
/// may be on the CPU; it copies them to the device.
struct run_of_op {
  /// Runs the forward kernel for the dtype of the inputs.
  run_of_op(const tried_op& x, std::vector<tensor> inputs);
  run_of_op(const run_of_op&) = delete;
  run_of_op& operator=(const run_of_op&) = delete;

  /// Draws a gradient of each output.
  std::vector<tensor> draw_gradients(std::uint32_t seed) const;

  /// Returns the gradients of the inputs, given those of the outputs. Element i
  /// of `wanted` requests the gradient of input i; empty: all are requested. If
  /// `add` is true, each gradient is added to a tensor of ones.
  std::vector<tensor> backward(const std::vector<tensor>& grad_out,
                               const std::vector<bool>& wanted = {},
                               bool add = false);
  /// Returns the gradient of input `i` as rows. Empty: the kernel gave none.
  sparse_rows backward_rows(const std::vector<tensor>& grad_out, std::size_t i);

  const op* definition;
  device on;
  std::vector<tensor> in;
  dtype type = dtype::float32; ///< Type of the call.
  op_outputs outputs;
  op_call call;

private:
  /// Runs the backward kernel.
  /// @param request sets which gradients the kernel computes.
  void run_backward(const std::vector<tensor>& grad_out,
                    const std::function<void(op_call&)>& request);
};

/// Compares the float64 gradient with central differences of the reference.
std::vector<std::string> check_reference_gradient(const tried_op& x);

/// Compares the kernels of the other dtypes with the float64 reference.
std::vector<std::string> check_kernels(const tried_op& x);

/// Checks that backward kernels add to a gradient.
std::vector<std::string> check_accumulation(const tried_op& x);

/// Checks that a gradient has the same bits if it is the only one that is
/// requested.
std::vector<std::string> check_requested_gradients(const tried_op& x);

/// Checks that sparse gradients are equal to the dense ones.
std::vector<std::string> check_sparse_gradients(const tried_op& x);

/// Checks that inputs that are not aligned change no bit.
std::vector<std::string> check_displaced_inputs(const tried_op& x);

} // namespace troupe::detail
