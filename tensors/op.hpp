#pragma once

#include "troupe/tensors/base/small_list.hpp"
#include "troupe/tensors/device.hpp"
#include "troupe/tensors/sparse_rows.hpp"
#include "troupe/tensors/tensor.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe {

/// Options of one call of an op: any copyable struct.
/// @cost a struct of more than 64 bytes, or one that is not trivially copyable,
///       is kept in memory of the pool. Copies of the options share it.
class op_options {
public:
  op_options() = default;

  template <class T>
  requires(!std::same_as<T, op_options> && std::copy_constructible<T>)
    op_options(const T& x)
    : tag_{&tag_of<T>} {
    if constexpr (is_inline<T>)
      new (bytes_.data()) T(x);
    else
      shared_ = std::allocate_shared<const T>(pool_allocator<T>{}, x);
  }

  /// Returns the options as a struct of type T.
  /// @errors throws std::logic_error if the struct has another type than T.
  template <class T>
  const T& as() const {
    if (tag_ != &tag_of<T>)
      throw std::logic_error("an op got the options of another op");
    if constexpr (is_inline<T>)
      return *std::launder(reinterpret_cast<const T*>(bytes_.data()));
    else
      return *static_cast<const T*>(shared_.get());
  }

private:
  static constexpr std::size_t inline_bytes = 64;
  template <class T>
  static constexpr bool
    is_inline = std::is_trivially_copyable_v<T> && sizeof(T) <= inline_bytes
                && alignof(T) <= alignof(std::max_align_t);
  template <class T>
  static constexpr char tag_of = 0;

  const char* tag_ = nullptr;
  alignas(std::max_align_t) std::array<std::byte, inline_bytes> bytes_{};
  std::shared_ptr<const void> shared_; ///< Null: the struct is in `bytes_`.
};

/// A set of dtypes.
class dtype_set {
public:
  constexpr dtype_set() = default;
  constexpr dtype_set(std::initializer_list<dtype> list) {
    for (const auto x : list)
      add(x);
  }
  constexpr void add(dtype x) { bits_ |= 1u << static_cast<unsigned>(x); }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool contains(dtype x) const {
    return (bits_ >> static_cast<unsigned>(x) & 1) != 0;
  }

private:
  std::uint32_t bits_ = 0;
};

/// What an op accepts as an input.
struct op_input {
  /// Empty: the input has the dtype of the call, which selects the kernels; all
  /// such inputs of a call have one dtype. Otherwise: one of these dtypes,
  /// whichever kernels are selected.
  dtype_set dtypes{};
  /// False: the gradient of this input is never computed. Inputs that are not
  /// floats have none either.
  bool differentiable = true;
  /// True: the backward kernels can give the gradient of this input as rows
  /// (`op_call::grad_rows`).
  bool has_sparse_gradient = false;
};

inline constexpr std::array<op_input, 1> one_input{};
inline constexpr std::array<op_input, 2> two_inputs{};
inline constexpr std::array<op_input, 3> three_inputs{};

/// What an op returns as an output.
struct op_output {
  tensor_spec spec;
  /// False: no gradient flows back from this output, so that tapes do not track
  /// it. Outputs that are not floats have none either. Do not write to such an
  /// output as long as a tape needs it, if the op saves its outputs.
  bool differentiable = true;

  bool has_gradient() const { return differentiable && is_float(spec.type); }
};

/// The outputs of a call, as a shape rule computes them.
class op_outputs {
public:
  op_outputs() = default;
  op_outputs(tensor_spec one) { add(std::move(one)); }
  op_outputs(const shape& dims, dtype type) { add({dims, type}); }

  void add(tensor_spec one, bool differentiable = true) {
    list_.push_back({std::move(one), differentiable});
  }
  std::size_t size() const { return list_.size(); }
  const op_output& operator[](std::size_t i) const { return list_[i]; }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

private:
  small_list<op_output, 1> list_;
};

struct op;

/// Arguments and results of a kernel. A forward kernel reads `in`, fills the
/// tensors of `out`, and appends to `saved` what backward needs. A backward
/// kernel reads `saved`, and `in` and `out` if the op saves them. It fills each
/// `grad_in[i]` that is not empty, and may overwrite `grad_out`. If
/// `grad_in[i]` is empty, this gradient is not requested. If no gradient flows
/// to an output, its `grad_out` is zero; of outputs without a gradient it is
/// empty. What the op does not save is an empty tensor in `in` and `out`. All
/// tensors of a call are on its device, also those that a kernel allocates;
/// only those of `to_device` are on two.
struct op_call {
  const op* definition = nullptr;
  dtype type = dtype::float32; ///< Type for which the kernel is.
  device on{};
  op_options options;
  std::span<const tensor> in;
  small_list<tensor, 1> out;
  small_list<tensor, 1> saved;
  small_list<tensor, 1> grad_out;
  std::span<tensor> grad_in;
  /// True for input i: the kernel adds to `grad_in[i]`. False or missing:
  /// `grad_in[i]` is uninitialized, and the kernel writes it.
  std::span<const bool> accumulate{};
  /// By input: receives the rows of a sparse gradient.
  std::span<sparse_rows> grad_rows{};
  /// True for input i: the kernel sets `grad_rows[i]` to the rows of the
  /// gradient, in any order, and `grad_in[i]` is empty. False or missing: it
  /// does not. Only for inputs with `op_input::has_sparse_gradient`.
  std::span<const bool> sparse{};

  bool wants(std::size_t i) const { return static_cast<bool>(grad_in[i]); }
  bool accumulates(std::size_t i) const {
    return i < accumulate.size() && accumulate[i];
  }
  bool wants_rows(std::size_t i) const {
    return i < sparse.size() && sparse[i];
  }
};

using op_kernel = void (*)(op_call&);

/// The kernels of an op for calls of one dtype, on one kind of device.
struct op_kernels {
  dtype type = dtype::float32;
  op_kernel forward = nullptr;
  op_kernel backward = nullptr; ///< Null: not differentiable.
  device_kind device = device_kind::cpu;
  /// Says whether this machine can run the kernels; always the same. Null: it
  /// can.
  bool (*is_supported)() = nullptr;
};

/// A set of inputs with which the tests check an op, for each of its dtypes.
struct op_case {
  std::vector<shape> in; ///< Shapes of the inputs.
  op_options options;
  /// Range of float inputs. Inputs with a dtype of their own are in [0, high).
  float low = -1, high = 1;
  /// Maximum float32 error, relative to the largest magnitude of the reference
  /// result. Results of integers and bools are equal.
  double bound = 1e-5;
  /// Added to `bound` for kernels for bfloat16. 2^-8 is the error of one
  /// rounding to bfloat16.
  double bfloat16_rounding = 0x1p-8;
};

/// Definition of an op. ops/all.hpp lists the built-in ops; `register_op` adds
/// another op.
struct op {
  std::string_view name;
  std::span<const op_input> inputs = one_input;
  /// True: the last input occurs any number of times, at least once.
  bool repeats_last_input = false;

  /// Shape rule: returns shape and dtype of each output.
  /// @errors throws std::logic_error with the shapes if the inputs do not fit.
  op_outputs (*infer)(std::span<const tensor_spec> in,
                      const op_options& options) = nullptr;

  /// Kernels by dtype and kind of device. Those for float64 on the CPU define
  /// the op; tests compare all others with them. Without kernels for float64,
  /// those on the CPU define the op for their dtype. A `device_backend` has the
  /// kernels of the built-in ops for its devices.
  std::span<const op_kernels> kernels{};

  bool saves_inputs = true;   ///< Backward reads `in`.
  bool saves_outputs = false; ///< Backward reads `out`.
  /// True: the output is input 0 in another shape, and the op has no kernels.
  /// The gradient of input 0 is `grad_out[0]` in the shape of input 0.
  bool is_reshape = false;
  /// Replaces the forward kernels for all dtypes and devices: appends to `out`
  /// views of input 0. Null: kernels compute the outputs.
  op_kernel view = nullptr;
  /// True: the kernels call only functions that work on any device, such as
  /// `tensor::copy_from`, so all devices run those of the CPU.
  bool runs_on_any_device = false;

  std::span<const op_case> cases{};
  /// Inputs at which df/dx jumps.
  std::span<const float> nondifferentiable_points{};
  std::string_view formula{}; ///< Shown in docs/ops.md.

  /// Returns what the op accepts as input `i` of a call.
  const op_input& input(std::size_t i) const {
    return inputs[std::min(i, inputs.size() - 1)];
  }
  /// Returns the kernels for a dtype. Null: there are none.
  const op_kernels* find_kernels(dtype type,
                                 device_kind device = device_kind::cpu) const {
    for (const auto& x : kernels)
      if (x.type == type && x.device == device
          && (!x.is_supported || x.is_supported()))
        return &x;
    return nullptr;
  }
  /// Returns the kernels that calls of a dtype run on the CPU. For bfloat16,
  /// these are the ones for float32 if there are no others. Null: there are
  /// none.
  const op_kernels* select_kernels(dtype type) const {
    const auto* const own = find_kernels(type);
    return own || type != dtype::bfloat16 ? own : find_kernels(dtype::float32);
  }
};

/// Runs an op and records it if a tape is active. Kernels get untracked
/// tensors, so their computations are not recorded. If an op has no kernels for
/// bfloat16, those for float32 run on converted inputs, and each result is
/// rounded to bfloat16.
/// @returns the outputs.
/// @errors throws std::logic_error for a wrong number, shape or dtype of
///         inputs, for inputs on two devices, and for a dtype or a device
///         without a kernel. Also throws if a gradient would be lost: if a tape
///         tracks an input without gradient, or an input of an op without
///         gradient. Throws too if a newer tape shadows the tape that tracks an
///         input.
small_list<tensor, 1> apply_all(const op& definition,
                                std::span<const tensor> in,
                                const op_options& options = {});
small_list<tensor, 1> apply_all(const op& definition,
                                std::initializer_list<tensor> in,
                                const op_options& options = {});

/// Runs an op that has one output, as `apply_all` does.
/// @errors also throws std::logic_error if the op has another number of
///         outputs.
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
