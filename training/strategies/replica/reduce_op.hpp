#pragma once

#include "troupe/tensors/ops/reduce.hpp"

#include <cstdint>
#include <span>

namespace troupe {

// The functions of this file compute on the CPU: values on other devices are
// copied there, and the results are there.

/// Operation that combines the values of several replicas into one.
enum class reduce_op : std::uint8_t { sum, mean };
inline constexpr auto sum = reduce_op::sum;
inline constexpr auto mean = reduce_op::mean;

/// Returns the elementwise sum or mean of one tensor per replica. It adds in
/// the order of the canonical tree. Let tree[a, b) be the sum of values a to
/// b - 1. It is tree[a, a + k) + tree[a + k, b), where k is the largest power
/// of two below b - a.
/// @shape values equal; float32, float64, int32 or int64; at least one.
/// @errors throws std::logic_error if shapes or dtypes differ, and for the mean
///         of integers.
tensor reduce(reduce_op op, std::span<const tensor> values);

/// Reduces over the replicas, and over the axes `over` of every value. The
/// extents along these axes may differ between replicas. The mean divides by
/// the number of elements reduced, so a replica with more elements has more
/// weight. A mean of no elements is NaN.
/// @param over axes to reduce. A negative axis counts from the end. Empty: no
///        axis.
tensor reduce(reduce_op op, std::span<const tensor> values, const axes& over);

/// Holds the sum of one replica's value over axes, and the number of elements
/// that were added for each element of the sum.
struct partial_sum {
  partial_sum(reduce_op op, const tensor& value, const axes& over);
  tensor sum;
  double elements = 1;
};

/// Divides every element by `divisor` and rounds once. The result is a new
/// tensor, of float32 and float64 on the device of `x`, else on the CPU.
tensor divide_elements(const tensor& x, double divisor);

/// Throws if a tape records the value, because gradients do not flow through a
/// collective.
/// @errors throws std::logic_error with the value's shape and dtype.
void check_unrecorded(const tensor& value);

/// Throws if a tape records the value, or if `op` is not defined for its dtype.
/// @errors throws std::logic_error with the value's shape and dtype.
void check_reducible(reduce_op op, const tensor& value);

/// Concatenates one tensor per replica along an axis.
/// @shape values rank >= 1; extents agree except along `axis`; any dtype.
/// @errors throws std::logic_error with the shapes.
tensor concatenate(std::span<const tensor> values, int axis);

} // namespace troupe
