#pragma once

#include "troupe/strategies/parameter_server/part_image.hpp"

#include <cstdint>
#include <tuple>
#include <vector>

namespace troupe::parameter_server {

/// The steps of an optimizer for a part of a table.
struct table_optimizer_image {
  std::uint32_t optimizer = 0;
  std::uint64_t steps = 0;
  std::uint32_t first = 0;    ///< Of its slots among those of a row.
  std::vector<float> initial; ///< By slot: value of its elements.
  auto fields() { return std::tie(optimizer, steps, first, initial); }
};

/// What a `table_part` holds, for a snapshot. Its tensors travel beside it: the
/// numbers of the rows that are kept, [m] int64, their elements and slots,
/// [m, floats], and their tags, [m, tags] int64; the numbers, [k] int64, and
/// tags, [k, 2] int64, of the rows that are not yet kept; then the rows, [r]
/// int64, and elements of each gradient that waits.
struct table_image {
  std::uint64_t version = 0;
  std::uint64_t next_step = 0; ///< All synchronous steps before it are applied.
  std::vector<table_optimizer_image> optimizers; ///< By number, ascending.
  std::vector<waiting_step_image> waiting;       ///< By step, ascending.
  auto fields() { return std::tie(version, next_step, optimizers, waiting); }
};

} // namespace troupe::parameter_server
