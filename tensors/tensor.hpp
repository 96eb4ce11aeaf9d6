#pragma once

#include "troupe/tensors/base/dtype.hpp"
#include "troupe/tensors/base/memory.hpp"
#include "troupe/tensors/base/shape.hpp"
#include "troupe/tensors/device.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace troupe {

class device_backend;

/// A reference-counted block of memory of one device, aligned to 64 bytes.
class storage {
public:
  storage() = default;
  /// Allocates uninitialized bytes of the CPU.
  explicit storage(std::size_t bytes);
  /// Allocates uninitialized bytes of a device.
  storage(std::size_t bytes, const troupe::device& on);
  /// Allocates uninitialized bytes of the CPU, from which copies to devices of
  /// the kind are faster. Without such devices: any bytes of the CPU.
  static storage pinned(std::size_t bytes, device_kind kind);
  storage(const storage& other) noexcept;
  storage(storage&& other) noexcept : block_{std::exchange(other.block_, {})} {}
  storage& operator=(storage other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~storage();

  /// Address on the device. Null: no block.
  std::byte* bytes() const { return block_ ? block_->data : nullptr; }
  std::size_t size() const { return block_ ? block_->size : 0; }
  troupe::device device() const {
    return block_ ? block_->on : troupe::device{};
  }
  bool is_on_host() const {
    return !block_ || block_->on.kind == device_kind::cpu;
  }
  bool unique() const {
    return block_ && block_->owners.load(std::memory_order_acquire) == 1;
  }
  explicit operator bool() const { return block_ != nullptr; }

private:
  struct alignas(memory::alignment) header {
    std::atomic<std::size_t> owners{1};
    std::size_t size = 0;
    std::byte* data = nullptr; ///< Null: `size` is 0.
    /// Null: the block lies behind the header.
    device_backend* backend = nullptr;
    troupe::device on{}; ///< The CPU with a backend: pinned memory.
  };
  static header* make_header(std::size_t bytes_behind);
  template <class F>
  void allocate_with(device_backend& backend, std::size_t bytes, F allocate);
  void release() noexcept;

  header* block_ = nullptr;
};

/// Shape and dtype of a tensor.
struct tensor_spec {
  troupe::shape dims;
  dtype type = dtype::float32;

  friend bool operator==(const tensor_spec&, const tensor_spec&) = default;
};

/// A dense, row-major array of rank 0 to 8. Copies are handles that share the
/// elements; `clone` copies the elements. Shape, dtype and device never change.
/// The host reads and writes only elements on the CPU; ops, copies and views
/// work on all devices.
///
/// If a tape tracks a tensor, it records `slice`, `reshaped`, `range`, `clone`
/// and `as` as ops with gradients. `detach` returns an untracked tensor. Other
/// functions that would lose the gradient throw std::logic_error.
class tensor {
public:
  tensor() = default; ///< Empty: no tensor.

  /// Allocates uninitialized elements.
  /// @errors throws std::bad_alloc.
  explicit tensor(const shape& dims, dtype type = dtype::float32);
  explicit tensor(const tensor_spec& spec) : tensor{spec.dims, spec.type} {}
  /// Allocates uninitialized elements on a device.
  /// @errors throws std::bad_alloc, `device_error` if the device has too little
  ///         memory, and std::logic_error if there is no such device.
  tensor(const tensor_spec& spec, const troupe::device& on);

  static tensor zeros(const shape& dims, dtype type = dtype::float32,
                      const troupe::device& on = {});

  /// Makes a tensor whose elements are all `value`, converted to `type`.
  static tensor full(const shape& dims, double value,
                     dtype type = dtype::float32,
                     const troupe::device& on = {});

  /// Allocates uninitialized elements on the CPU, from which copies to devices
  /// of the kind are faster.
  static tensor pinned(const tensor_spec& spec, device_kind kind);

  /// Makes a tensor of these elements, in row-major order.
  /// @errors throws std::logic_error if a tensor of shape `dims` has another
  ///         number of elements.
  template <class T>
  static tensor of(const shape& dims, std::span<const T> values);
  template <class T>
  static tensor of(const shape& dims, std::initializer_list<T> values) {
    return of<T>(dims, std::span<const T>{values.begin(), values.size()});
  }

  const shape& dims() const { return spec_.dims; }
  dtype type() const { return spec_.type; }
  const tensor_spec& spec() const { return spec_; }
  /// Number of elements. Zero for an empty tensor, which has no shape.
  std::size_t size() const { return storage_ ? spec_.dims.elements() : 0; }
  std::size_t bytes() const { return size() * size_of(type()); }
  explicit operator bool() const { return static_cast<bool>(storage_); }
  /// The device with the elements. All tensors on the CPU are on "cpu:0".
  troupe::device device() const { return storage_.device(); }

  /// Returns the elements for reading.
  /// @errors throws std::logic_error if `T` is not the tensor's dtype, or the
  ///         elements are not on the CPU.
  template <class T>
  std::span<const T> data() const {
    check(dtype_of<T>);
    return {reinterpret_cast<const T*>(raw()), size()};
  }

  /// Returns the elements for writing. All handles of the tensor share them.
  /// @errors throws std::logic_error if `T` is not the tensor's dtype, the
  ///         elements are not on the CPU, or the handle is read-only. Throws it
  ///         also while a tape needs the elements for its gradients.
  template <class T>
  std::span<T> mutable_data() {
    check(dtype_of<T>);
    if (may_refuse_writes())
      check_writable();
    return {reinterpret_cast<T*>(raw()), size()};
  }

  /// Pointer to the first element.
  /// @errors throws std::logic_error if the elements are not on the CPU.
  std::byte* raw() const {
    if (!storage_.is_on_host())
      refuse_host_access();
    return storage_.bytes() + offset_;
  }
  /// Address of the first element on its device, for kernels of the device.
  std::byte* address() const { return storage_.bytes() + offset_; }
  /// The same, for kernels that write.
  /// @errors throws std::logic_error if the handle is read-only, and while a
  ///         tape needs the elements.
  std::byte* mutable_address() {
    if (may_refuse_writes())
      check_writable();
    return address();
  }

  /// Returns the only element, from any device.
  /// @errors throws std::logic_error if the tensor does not have exactly one
  ///         element.
  template <class T>
  T item() const {
    check_single();
    return detach().to({}).template data<T>()[0];
  }

  /// Returns a copy on another device, or this tensor if its elements are there
  /// already. A tape records the copy, and copies the gradient back.
  /// @errors as the constructor.
  tensor to(const troupe::device& target) const;

  /// Returns rows [begin, end) of the first axis; shares the elements.
  /// @errors throws std::logic_error if the rows do not exist.
  tensor slice(std::int64_t begin, std::int64_t end) const;

  /// Returns a tensor of another shape that shares the elements.
  /// @errors throws std::logic_error if the number of elements differs.
  tensor reshaped(const shape& new_dims) const;

  /// Returns elements [begin, end) of the flattened tensor. The result has the
  /// shape [end - begin] and shares the elements.
  tensor range(std::size_t begin, std::size_t end) const;

  /// Returns a copy with elements of its own.
  tensor clone() const;

  /// Returns a constant that no tape tracks; shares the elements.
  tensor detach() const { return with_trace(0); }

  /// Returns a handle that shares the elements and cannot write them, and
  /// whose slices and other views cannot either. Its `clone` can be written.
  /// Handles that exist already can still write the elements.
  tensor read_only() const& {
    auto other = *this;
    other.is_read_only_ = true;
    return other;
  }
  tensor read_only() && {
    is_read_only_ = true;
    return std::move(*this);
  }
  bool is_read_only() const { return is_read_only_; }

  /// Sets all elements to zero.
  /// @errors throws std::logic_error if the handle is read-only, and while a
  ///         tape needs the elements.
  void set_zero();

  /// Copies the elements of a tensor of equal shape and dtype, on any device.
  /// @errors throws std::logic_error for another shape or dtype, if a tape
  ///         tracks `source`, or if this handle is read-only. Throws it also
  ///         while a tape needs the overwritten elements.
  void copy_from(const tensor& source);

  /// Converts the elements; shares them if the dtype is `target` already. A
  /// float beyond the range of an integer type becomes the nearest value of
  /// that type, and NaN becomes 0. Integers wrap around.
  /// @errors throws std::logic_error if a tape tracks the tensor and `target`
  ///         is not a float type: integers have no gradient.
  tensor as(dtype target) const;

  /// True if no other handle shares the elements.
  bool unique() const { return storage_.unique(); }
  bool shares_storage_with(const tensor& other) const {
    return storage_ && storage_.bytes() == other.storage_.bytes();
  }

  /// Identifies this value in a tape (tape_ids.hpp). Zero: no tape tracks it.
  std::uint64_t trace() const { return trace_; }
  tensor with_trace(std::uint64_t trace) const& {
    auto other = *this;
    other.trace_ = trace;
    return other;
  }
  tensor with_trace(std::uint64_t trace) && {
    trace_ = trace;
    return std::move(*this);
  }

private:
  void check(dtype wanted) const;
  void check_single() const;
  bool may_refuse_writes() const { return trace_ != 0 || is_read_only_; }
  void check_writable() const;
  [[noreturn]] void refuse_host_access() const;

  storage storage_;
  std::size_t offset_ : 63 = 0; ///< Bytes.
  bool is_read_only_ : 1 = false;
  tensor_spec spec_;
  std::uint64_t trace_ = 0;
};

using tensors = pooled<tensor>;

/// Formats a spec: "float32[64, 10]".
std::string to_string(const tensor_spec& x);

/// True if shape, dtype and all bytes are equal, or both tensors are empty. The
/// tensors may be on different devices.
bool same_bits(const tensor& a, const tensor& b);

/// Calls `fn(T{})`, where T is the element type of `type`.
template <class F>
decltype(auto) with_dtype(dtype type, F&& fn) {
  switch (type) {
    case dtype::float64:
      return fn(double{});
    case dtype::int32:
      return fn(std::int32_t{});
    case dtype::int64:
      return fn(std::int64_t{});
    case dtype::uint8:
      return fn(std::uint8_t{});
    case dtype::boolean:
      return fn(bool{});
    case dtype::bfloat16:
      return fn(bfloat16{});
    case dtype::float32:
      break;
  }
  return fn(float{});
}

} // namespace troupe
