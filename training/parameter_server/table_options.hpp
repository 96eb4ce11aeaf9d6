#pragma once

#include "troupe/tensors/optim/initializers.hpp"

#include <cstdint>

namespace troupe {

/// Options of `parameter_server_strategy::make_table`.
struct table_options {
  std::int64_t rows = 0;
  std::int64_t row_elements = 0; ///< Floats of a row.
  /// Initial values of a row. They depend on the seed, the name of the table
  /// and the number of the row, and not on which rows are used before.
  initializer initial{"uniform"};
  std::uint64_t seed = 0;
  /// A row is kept from its gradient with this number on. The gradients before
  /// are dropped, and the row has its initial values. Other changes make a row
  /// at once. 0 and 1: from the first one on.
  std::uint32_t min_touches = 1;
  /// A row is dropped when it is in none of so many consecutive changes of its
  /// part of the table. It has its initial values again, also its slots. Zero:
  /// no row is dropped. At most 2^30.
  std::uint32_t max_idle_changes = 0;
};

} // namespace troupe
