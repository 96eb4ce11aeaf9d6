#pragma once

#include "troupe/tensors/ops/reduce.hpp"

#include <cstdint>
#include <span>

namespace troupe {

/// How values of several replicas become one.
enum class reduce_op : std::uint8_t { sum, mean };
inline constexpr auto sum = reduce_op::sum;
inline constexpr auto mean = reduce_op::mean;

/// The elementwise sum or mean of one tensor per replica, added in the order of
/// the canonical tree: tree[a, b) is tree[a, a + k) + tree[a + k, b) with k the
/// largest power of two below b - a.
/// @shape parts  all the same; float32, float64, int32 or int64; at least one.
/// @errors throws std::logic_error if shapes or dtypes differ, and for the mean
///         of integers.
tensor reduce(reduce_op op, std::span<const tensor> parts);

/// The same over these axes of every part too, which then may differ in their
/// extents along them. The mean divides by the number of elements reduced, so
/// it is weighted by how many each replica had; a mean of none is NaN.
/// @param over negative ones count from the end; none: no axis is reduced.
tensor reduce(reduce_op op, std::span<const tensor> parts, axes over);

/// The first half of that, for the part of one replica: its sum, and how many
/// elements went into each of its elements.
struct sum_along {
  sum_along(reduce_op op, const tensor& x, std::span<const int> over);
  tensor sum;
  double elements = 1;
};

/// Every element by one number, each rounded once; a tensor of its own.
tensor divided(const tensor& x, double by);

/// Refuses a value that a tape records: no gradient passes an exchange.
/// @errors throws std::logic_error with the value's shape and dtype.
void check_unrecorded(const tensor& x);

/// Refuses what cannot be summed, or has no mean, or what a tape records.
/// @errors throws std::logic_error with the value's shape and dtype.
void check_reducible(reduce_op op, const tensor& x);

/// One tensor per replica, one after the other along an axis.
/// @shape parts  rank >= 1; extents agree but along `axis`; any dtype.
/// @errors throws std::logic_error with the shapes.
tensor concatenate(std::span<const tensor> parts, int axis);

} // namespace troupe
