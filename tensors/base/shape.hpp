#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace troupe {

/// The extents of a dense, row-major tensor with at most 8 axes. A shape
/// allocates no memory.
class shape {
public:
  static constexpr std::size_t max_rank = 8;

  shape() = default; ///< A scalar.

  /// @errors throws std::logic_error for more than 8 axes, for a negative
  ///         extent, and if the product of the extents exceeds 2^62.
  shape(std::initializer_list<std::int64_t> extents);
  explicit shape(std::span<const std::int64_t> extents);

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t axis) const { return extents_[axis]; }
  std::int64_t front() const { return extents_[0]; }
  std::int64_t back() const { return extents_[rank_ - 1]; }
  const std::int64_t* begin() const { return extents_.data(); }
  const std::int64_t* end() const { return extents_.data() + rank_; }

  /// Product of the extents; 1 for a scalar.
  std::size_t elements() const;

  /// Returns this shape with the extent of `axis` replaced.
  /// @errors throws std::logic_error if the axis does not exist or the new
  ///         shape is invalid.
  shape with_extent(std::size_t axis, std::int64_t extent) const;

  /// Returns the shape of the axes [first, last).
  shape axes(std::size_t first, std::size_t last) const;

  friend bool operator==(const shape& a, const shape& b);

private:
  std::array<std::int64_t, max_rank> extents_{};
  std::size_t rank_ = 0;
};

/// Formats a shape: "[64, 28, 28, 1]".
std::string to_string(const shape& x);

/// Returns the shape to which two shapes broadcast by NumPy's rule: they are
/// aligned at the last axis, and an extent of 1 is stretched.
/// @errors throws std::logic_error with both shapes.
shape broadcast(const shape& a, const shape& b);

} // namespace troupe
