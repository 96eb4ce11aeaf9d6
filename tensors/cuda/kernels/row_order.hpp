#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>

namespace troupe::cuda {

/// A list of numbers of rows, sorted on a device. Equal numbers keep their
/// order.
struct row_order {
  /// By place in the order: the number of the row, above the position in the
  /// list that was sorted. Numbers below 0 or not below `rows` come last, as
  /// `rows`.
  tensor parts; ///< [n] int64
  unsigned position_bits;
  std::int64_t rows;
};

/// Sorts a list of numbers of rows, in the order of `troupe::order_by_row`.
/// @param indices [n] int64, n > 0, on a device.
/// @param rows number of rows.
/// @cost a radix sort of 8 bytes a number, by the bits of `rows`.
row_order order_by_row(const tensor& indices, std::int64_t rows);

/// Replaces each number by the sum of all numbers up to it.
/// @param list [n] int64, on a device.
void sum_up(tensor& list);

} // namespace troupe::cuda
