#pragma once

#include "troupe/tensors/device.hpp"
#include "troupe/tensors/tensor.hpp"

#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>

namespace troupe {

/// Options of one call of an op: any trivially copyable struct of at most 64
/// bytes.
class op_options {
public:
  op_options() = default;

  template <class T>
  requires(std::is_trivially_copyable_v<T> && sizeof(T) <= 64
           && !std::same_as<T, op_options>) op_options(const T& x)
    : tag_{&tag_of<T>} {
    std::memcpy(bytes_.data(), &x, sizeof x);
  }

  /// Returns the options as a struct of type T.
  /// @errors throws std::logic_error if the struct has another type than T.
  template <class T>
  T as() const {
    if (tag_ != &tag_of<T>)
      throw std::logic_error("an op got the options of another op");
    T x;
    std::memcpy(static_cast<void*>(&x), bytes_.data(), sizeof x);
    return x;
  }

private:
  template <class T>
  static constexpr char tag_of = 0;

  const char* tag_ = nullptr;
  alignas(8) std::array<std::byte, 64> bytes_{};
};

/// Arguments and results of a kernel. A forward kernel reads `in`, fills `out`,
/// and stores in `saved` what backward needs. A backward kernel reads `saved`,
/// and `in` and `out` if the op saves them. It fills each `grad_in[i]` that is
/// not empty, and may overwrite `grad_out`. If `grad_in[i]` is empty, this
/// gradient is not requested.
struct op_call {
  op_options options;
  std::span<const tensor> in;
  tensor out;
  tensor saved;
  tensor grad_out;
  std::span<tensor> grad_in;
  /// Bit i set: the kernel adds to `grad_in[i]`. Otherwise `grad_in[i]` is
  /// uninitialized, and the kernel writes it.
  std::uint32_t accumulate = 0;

  bool wants(std::size_t i) const { return static_cast<bool>(grad_in[i]); }
  bool accumulates(std::size_t i) const { return accumulate >> i & 1; }
};

using op_kernel = void (*)(op_call&);

/// A set of inputs with which the tests check an op, in float32 and float64.
struct op_case {
  std::array<shape, 4> in; ///< Shapes of the op's inputs.
  op_options options;
  /// Range of float inputs; integer inputs are in [0, high).
  float low = -1, high = 1;
  /// Maximum float32 error, relative to the largest magnitude of the reference
  /// result.
  double bound = 1e-5;
};

/// Definition of an op. ops/all.hpp lists the built-in ops; `register_op` adds
/// another op.
struct op {
  std::string_view name;
  std::size_t arity = 1; ///< Number of inputs, at most 4.

  /// Shape rule: returns the shape and dtype of the result.
  /// @errors throws std::logic_error with the shapes if the inputs do not fit.
  tensor_spec (*infer)(std::span<const tensor_spec> in,
                       const op_options& options) = nullptr;

  /// float32 kernels by kind of device. Null: the op cannot run there.
  std::array<op_kernel, device_kinds> forward{};
  /// float32 kernels of the gradients. All null: not differentiable.
  std::array<op_kernel, device_kinds> backward{};

  /// float64 kernels on the CPU. They define the op; tests compare all other
  /// kernels with them.
  op_kernel reference_forward = nullptr;
  op_kernel reference_backward = nullptr;

  bool saves_inputs = true;  ///< Backward reads `in`.
  bool saves_output = false; ///< Backward reads `out`.
  /// True: the result is input 0 in another shape, and the op has no kernels.
  /// The gradient of input 0 is `grad_out` in the shape of input 0.
  bool is_reshape = false;
  /// Replaces `forward`: returns the result as a view of input 0. Null: kernels
  /// compute the result.
  tensor (*view)(const tensor& x, const op_options& options) = nullptr;

  std::span<const op_case> cases{};
  /// Inputs at which df/dx jumps.
  std::span<const float> nondifferentiable_points{};
  std::uint32_t integers = 0; ///< Bit i set: input i is int32.
  std::string_view formula{}; ///< Shown in docs/ops.md.
};

/// Runs an op and records it if a tape is active. Kernels get untracked
/// tensors, so their computations are not recorded.
/// @errors throws std::logic_error for a wrong number, shape or dtype of
///         inputs, and for a dtype without a kernel. Also throws if a gradient
///         would be lost: if a tape tracks an input of an op that has no
///         gradient, or if an input is tracked by a tape that a newer tape
///         shadows.
tensor apply(const op& definition, std::span<const tensor> in,
             const op_options& options = {});
tensor apply(const op& definition, std::initializer_list<tensor> in,
             const op_options& options = {});

/// Returns all ops, built-in and registered.
std::vector<const op*> all_ops();

/// Registers an op, which must outlive all its uses.
/// @errors throws std::logic_error if the name is registered or a required
///         member is missing.
void register_op(const op& definition);

/// Returns the op with this name. Null: there is none.
const op* find_op(std::string_view name);

} // namespace troupe
