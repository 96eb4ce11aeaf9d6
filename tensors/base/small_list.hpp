#pragma once

#include "troupe/tensors/base/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace troupe {

/// A vector whose first N elements lie in the object itself. If it has more,
/// all lie in memory of the pool (memory.hpp).
template <class T, std::size_t N>
class small_list {
public:
  static_assert(std::is_nothrow_move_constructible_v<T>);
  static_assert(alignof(T) <= memory::alignment);

  using value_type = T;

  small_list() noexcept = default;
  explicit small_list(std::size_t n, const T& value = T{}) {
    reserve(n);
    while (size_ < n)
      push_back(value);
  }
  small_list(std::initializer_list<T> list) { assign(list); }
  small_list(const small_list& other) { assign(other); }
  small_list(small_list&& other) noexcept { take(other); }
  small_list& operator=(const small_list& other) {
    if (this != &other)
      assign(other);
    return *this;
  }
  small_list& operator=(small_list&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~small_list() { release(); }

  /// Copies elements of another list.
  void assign(std::span<const T> list) {
    clear();
    reserve(list.size());
    for (const auto& x : list)
      push_back(x);
  }

  void push_back(T value) { emplace_back(std::move(value)); }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_)
      reserve(2 * capacity_);
    auto* const made =
      std::construct_at(data() + size_, std::forward<Args>(args)...);
    ++size_;
    return *made;
  }

  void reserve(std::size_t n) {
    if (n <= capacity_)
      return;
    auto* const block = static_cast<T*>(memory::allocate(n * sizeof(T)));
    std::uninitialized_move_n(data(), size_, block);
    const auto count = size_;
    release();
    heap_ = block;
    capacity_ = n;
    size_ = count;
  }

  void clear() noexcept {
    std::destroy_n(data(), size_);
    size_ = 0;
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept {
    return heap_ ? heap_ : std::launder(reinterpret_cast<T*>(inline_));
  }
  const T* data() const noexcept {
    return heap_ ? heap_ : std::launder(reinterpret_cast<const T*>(inline_));
  }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }

  /// @errors throws std::logic_error if there is no element `i`.
  T& operator[](std::size_t i) {
    check(i);
    return data()[i];
  }
  const T& operator[](std::size_t i) const {
    check(i);
    return data()[i];
  }

private:
  void check(std::size_t i) const {
    if (i >= size_)
      throw std::logic_error("element " + std::to_string(i) + " of a list of "
                             + std::to_string(size_));
  }

  /// Destroys all elements, and releases the memory.
  void release() noexcept {
    clear();
    if (heap_)
      memory::release(std::exchange(heap_, nullptr), capacity_ * sizeof(T));
    capacity_ = N;
  }

  /// Moves the elements of another list here. @pre this list is empty.
  void take(small_list& other) noexcept {
    if (other.heap_) {
      heap_ = std::exchange(other.heap_, nullptr);
      capacity_ = std::exchange(other.capacity_, N);
      size_ = std::exchange(other.size_, 0);
      return;
    }
    std::uninitialized_move_n(other.data(), other.size_, data());
    size_ = other.size_;
    other.clear();
  }

  T* heap_ = nullptr; ///< Null: the elements are in `inline_`.
  std::size_t size_ = 0, capacity_ = N;
  alignas(T) std::byte inline_[N * sizeof(T)];
};

} // namespace troupe
