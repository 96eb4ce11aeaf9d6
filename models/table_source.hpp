#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstddef>

namespace troupe::models {

/// Has the tables of a network whose variables lack them, for example because
/// they are on parameter servers.
class table_source {
public:
  virtual ~table_source() = default;

  /// Returns rows of a table, as `embedding_lookup` does. A tape records what
  /// the gradient of these rows needs.
  /// @param parameter number of the table among the parameters of the network.
  /// @param rows on the CPU.
  /// @shape rows [i...] int64; returns [i..., d...] of a table [n, d...]
  /// @errors throws std::out_of_range for a number that is not a row.
  virtual tensor lookup(std::size_t parameter, const tensor& rows) = 0;
};

} // namespace troupe::models
