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

/// The settings of one use of an op: any plain struct of at most 64 bytes.
class op_options {
public:
  op_options() = default;

  template <class T>
  requires(std::is_trivially_copyable_v<T> && sizeof(T) <= 64
           && !std::same_as<T, op_options>) op_options(const T& x)
    : tag_{&tag_of<T>} {
    std::memcpy(bytes_.data(), &x, sizeof x);
  }

  /// @errors throws std::logic_error if it holds another type.
  template <class T>
  T as() const {
    if (tag_ != &tag_of<T>)
      throw std::logic_error("an op was given another op's options");
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

/// What a kernel works on. Forward reads `in` and fills `out` (and may put what
/// backward needs into `saved`). Backward reads `in`, `out`, `saved` as far as
/// the op keeps them, may overwrite `grad_out`, and fills each `grad_in[i]`
/// that is there: nobody asked for one that is empty.
struct op_call {
  op_options options;
  std::span<const tensor> in;
  tensor out;
  tensor saved;
  tensor grad_out;
  std::span<tensor> grad_in;
  /// Bit i set: add to `grad_in[i]`; otherwise it is not initialised: write it.
  std::uint32_t accumulate = 0;

  bool wants(std::size_t i) const { return static_cast<bool>(grad_in[i]); }
  bool adds(std::size_t i) const { return accumulate >> i & 1; }
};

using op_kernel = void (*)(op_call&);

/// One set of inputs on which the tests try an op, at both precisions.
struct op_case {
  std::array<shape, 4> in; ///< As many as the op has inputs.
  op_options options;
  float low = -1,
        high = 1;      ///< Range of float inputs; integer inputs: [0, high).
  double bound = 1e-5; ///< Largest error of float32, relative to the
                       ///< largest magnitude in the reference result.
};

/// All the house knows of an op. One array lists the built-in ones
/// (ops/all.hpp), `register_op` adds a user's.
struct op {
  std::string_view name;
  std::size_t arity = 1; ///< Number of inputs, at most 4.

  /// The result's shape and dtype; throws std::logic_error with the shapes if
  /// the inputs do not fit.
  tensor_spec (*infer)(std::span<const tensor_spec> in,
                       const op_options& options) = nullptr;

  /// float32, per kind of device; null: not on this device.
  std::array<op_kernel, device_kinds> forward{};
  std::array<op_kernel, device_kinds> backward{}; ///< Null everywhere: not
                                                  ///< differentiable.

  /// float64 on the CPU: the plain definition, as short as can be; the oracle
  /// of all other kernels.
  op_kernel reference_forward = nullptr;
  op_kernel reference_backward = nullptr;

  bool keeps_inputs = true;  ///< Backward reads `in`.
  bool keeps_output = false; ///< Backward reads `out`.
  /// The gradient of input 0 is `grad_out` in another shape; no kernel runs.
  bool passes_through = false;
  /// Makes the result a view of input 0, in place of `forward`; null: kernels
  /// compute it.
  tensor (*view)(const tensor& x, const op_options& options) = nullptr;

  std::span<const op_case> cases{};
  std::span<const float> kinks{}; ///< Inputs near which df/dx jumps.
  std::uint32_t integers = 0;     ///< Bit i set: input i holds int32.
  std::string_view formula{};     ///< For docs/ops.md.
};

/// Runs an op and, when a tape records, writes it down. Kernels are given
/// plain handles: what they compute from them is not recorded.
/// @errors throws std::logic_error: wrong number, shapes or dtypes of inputs,
///         no kernel for the dtype; where a gradient would be lost: a tape
///         records an input of an op that has none, or an input is recorded by
///         a tape that another one shadows.
tensor apply(const op& what, std::span<const tensor> in,
             const op_options& options = {});
tensor apply(const op& what, std::initializer_list<tensor> in,
             const op_options& options = {});

/// The built-in ops and the registered ones.
std::vector<const op*> all_ops();

/// Adds an op of the user's; it must outlive the program's use of it.
/// @errors throws std::logic_error if the name is taken or a part is missing.
void register_op(const op& what);

/// @returns null if there is no op of that name.
const op* find_op(std::string_view name);

} // namespace troupe
