#pragma once

#include "troupe/tensors/dtype.hpp"
#include "troupe/tensors/memory.hpp"
#include "troupe/tensors/shape.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace troupe {

/// Bytes behind a reference count, aligned to 64.
class storage {
public:
  storage() = default;
  /// Not initialised.
  explicit storage(std::size_t bytes);
  storage(const storage& other) noexcept;
  storage(storage&& other) noexcept : block_{std::exchange(other.block_, {})} {}
  storage& operator=(storage other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~storage();

  std::byte* bytes() const;
  std::size_t size() const { return block_ ? block_->size : 0; }
  bool unique() const {
    return block_ && block_->owners.load(std::memory_order_acquire) == 1;
  }
  explicit operator bool() const { return block_ != nullptr; }

private:
  struct alignas(memory::alignment) header {
    std::atomic<std::size_t> owners;
    std::size_t size;
  };
  header* block_ = nullptr;
};

/// What a tensor is without its elements.
struct tensor_spec {
  troupe::shape dims;
  dtype type = dtype::float32;

  friend bool operator==(const tensor_spec&, const tensor_spec&) = default;
};

/// A dense, row-major array of any rank up to 8. Copies share the elements, as
/// handles do; `clone` copies them. Its shape and dtype never change.
///
/// While a tape records a tensor, `slice`, `reshaped`, `range`, `clone` and
/// `as` are recorded as ops with gradients. Only `detach` leaves the trace;
/// what would lose it in silence throws std::logic_error.
class tensor {
public:
  tensor() = default; ///< No tensor at all; `!x`.

  /// Not initialised.
  /// @errors throws std::bad_alloc.
  explicit tensor(const shape& dims, dtype type = dtype::float32);
  explicit tensor(const tensor_spec& spec) : tensor{spec.dims, spec.type} {}

  static tensor zeros(const shape& dims, dtype type = dtype::float32);

  /// All elements the same, converted to `type` as `as` does it.
  static tensor full(const shape& dims, double value,
                     dtype type = dtype::float32);

  /// The elements given, in row-major order.
  /// @errors throws std::logic_error if their number is not that of `dims`.
  template <class T>
  static tensor of(const shape& dims, std::span<const T> values);
  template <class T>
  static tensor of(const shape& dims, std::initializer_list<T> values) {
    return of<T>(dims, std::span<const T>{values.begin(), values.size()});
  }

  const shape& dims() const { return spec_.dims; }
  dtype type() const { return spec_.type; }
  const tensor_spec& spec() const { return spec_; }
  std::size_t size() const { return spec_.dims.elements(); }
  std::size_t bytes() const { return size() * size_of(type()); }
  explicit operator bool() const { return static_cast<bool>(storage_); }

  /// The elements.
  /// @errors throws std::logic_error if `T` is not the tensor's dtype.
  template <class T>
  std::span<const T> data() const {
    check(dtype_of<T>);
    return {reinterpret_cast<const T*>(raw()), size()};
  }

  /// The elements, to be written; all handles see it.
  /// @errors throws std::logic_error if `T` is not the tensor's dtype, and
  ///         while a tape needs the elements for its gradients, which would be
  ///         wrong.
  template <class T>
  std::span<T> mutable_data() {
    check(dtype_of<T>);
    if (trace_ != 0)
      check_writable();
    return {reinterpret_cast<T*>(raw()), size()};
  }

  /// The first element, unchecked.
  std::byte* raw() const { return storage_.bytes() + offset_; }

  /// The only element.
  /// @errors throws std::logic_error if there are more, or none.
  template <class T>
  T item() const {
    check_single();
    return data<T>()[0];
  }

  /// Rows [begin, end) of the first axis; shares the elements.
  tensor slice(std::int64_t begin, std::int64_t end) const;

  /// The same elements in another shape; shares them.
  tensor reshaped(const shape& dims) const;

  /// Elements [begin, end) of the flattened tensor as [end - begin]; shares
  /// them.
  tensor range(std::size_t begin, std::size_t end) const;

  /// The same elements, copied.
  tensor clone() const;

  /// The same elements, shared, as a constant that no tape records.
  tensor detach() const { return traced(0); }

  /// Copies the elements of a tensor of the same shape and dtype.
  /// @errors throws std::logic_error for other shapes and dtypes, while a tape
  ///         records `other`, and while one needs the elements written to.
  void copy_from(const tensor& other);

  /// Converted elements; shares them if the dtype is `type` already. A float
  /// that an integer type cannot hold becomes the nearest value that it can,
  /// and NaN becomes 0; integers wrap around.
  /// @errors throws std::logic_error while a tape records the tensor, if `type`
  ///         is no float: integers have no gradient.
  tensor as(dtype type) const;

  /// Whether nobody else holds these elements.
  bool unique() const { return storage_.unique(); }
  bool shares_storage_with(const tensor& other) const {
    return storage_ && storage_.bytes() == other.storage_.bytes();
  }

  /// How a tape knows this value (tape.hpp); 0: no tape does.
  std::uint64_t trace() const { return trace_; }
  tensor traced(std::uint64_t trace) const {
    auto other = *this;
    other.trace_ = trace;
    return other;
  }

private:
  void check(dtype wanted) const;
  void check_single() const;
  void check_writable() const;

  storage storage_;
  std::size_t offset_ = 0; ///< In bytes.
  tensor_spec spec_;
  std::uint64_t trace_ = 0;
};

using tensors = pooled<tensor>;

/// "float32[64, 10]"
std::string to_string(const tensor_spec& x);

/// Whether shape, dtype and every byte agree, or neither is a tensor.
bool same_bits(const tensor& a, const tensor& b);

/// Calls `fn(T{})` with a value of the element type of `type`.
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
    case dtype::float32:
      break;
  }
  return fn(float{});
}

} // namespace troupe
