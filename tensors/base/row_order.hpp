#pragma once

#include "troupe/tensors/base/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe {

/// An element of a list of numbers of rows.
struct row_position {
  std::int64_t row;
  std::size_t at; ///< Where it is in the list.
};

/// Sorts a list of numbers of rows, which are not negative. Equal numbers keep
/// their order.
/// @cost two passes over the list for each 11 bits of the largest number.
pooled<row_position> order_by_row(std::span<const std::int64_t> rows);

} // namespace troupe
