#pragma once

#include "troupe/tensors/ops/reduce.hpp"

#include <cstdint>
#include <span>

namespace troupe {

/// Operation that combines the values of several replicas into one.
enum class reduce_op : std::uint8_t { sum, mean };
inline constexpr auto sum = reduce_op::sum;
inline constexpr auto mean = reduce_op::mean;

/// Returns the elementwise sum or mean of one tensor per replica, added in the
/// order of the canonical tree: tree[a, b) is tree[a, a + k) + tree[a + k, b)
/// with k the largest power of two below b - a.
/// @shape values equal; float32, float64, int32 or int64; at least one.
/// @errors throws std::logic_error if shapes or dtypes differ, and for the mean
///         of integers.
tensor reduce(reduce_op op, std::span<const tensor> values);

/// Reduces over the replicas and over these axes of every value; values may
/// differ in their extents along them. The mean divides by the number of
/// elements reduced, so it is weighted by each replica's extent. A mean of no
/// elements is NaN.
/// @param over negative axes count from the end; none: no axis is reduced.
tensor reduce(reduce_op op, std::span<const tensor> values, axes over);

/// Reduces one replica's part over axes: its sum, and the number of elements
/// that were added for each element of the sum.
struct partial_sum {
  partial_sum(reduce_op op, const tensor& value, std::span<const int> over);
  tensor sum;
  double elements = 1;
};

/// Divides every element by one number and rounds once. The result is a new
/// tensor.
tensor divide_elements(const tensor& x, double divisor);

/// Rejects a value that a tape records: gradients do not flow through a
/// collective.
/// @errors throws std::logic_error with the value's shape and dtype.
void check_unrecorded(const tensor& value);

/// Rejects a value that has no sum, or no mean, or that a tape records.
/// @errors throws std::logic_error with the value's shape and dtype.
void check_reducible(reduce_op op, const tensor& value);

/// Concatenates one tensor per replica along an axis.
/// @shape values rank >= 1; extents agree except along `axis`; any dtype.
/// @errors throws std::logic_error with the shapes.
tensor concatenate(std::span<const tensor> values, int axis);

} // namespace troupe
