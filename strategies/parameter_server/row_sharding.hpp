#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

// A sharded variable is divided along its first axis. Each of its shards is a
// range of consecutive rows, which one server holds.

namespace troupe::parameter_server {

/// Rows [begin, end).
struct row_range {
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const row_range&, const row_range&) = default;
};

/// Some consecutive rows of one shard.
struct shard_slice {
  std::uint32_t shard = 0;
  row_range rows; ///< Counted from the first row of the shard.

  friend bool operator==(const shard_slice&, const shard_slice&) = default;
};

/// Says which shard holds which rows of a variable. The shards hold equal
/// numbers of rows, except that each of the first (rows mod shards) shards
/// holds one row more: 10 rows in 4 shards are 3, 3, 2 and 2 rows.
/// @source the strategy "div" of TensorFlow's sharded variables
class row_sharding {
public:
  /// Maximum number of shards of a variable.
  static constexpr std::uint32_t max_shards = 1u << 20;

  /// @param rows extent of the first axis; 1 for a scalar.
  /// @errors throws std::logic_error unless `shards` is from 1 to `max_shards`
  ///         and each shard has a row. A variable without rows has one shard.
  row_sharding(std::int64_t rows, std::uint32_t shards);

  std::int64_t rows() const { return rows_; }
  std::uint32_t shards() const { return shards_; }

  /// Returns the rows of a shard, counted from the first row of the variable.
  /// @errors throws std::logic_error if there is no such shard.
  row_range range_of(std::uint32_t shard) const;

  /// Returns the shard that holds a row.
  /// @errors throws std::logic_error if there is no such row.
  /// @cost one division
  std::uint32_t shard_of(std::int64_t row) const;

  /// Divides a range of rows among the shards that hold them. Rows after the
  /// last row of the variable are left out, as in the slices of Python.
  /// @returns the slices by shard, ascending; none of them is empty.
  /// @errors throws std::logic_error if `wanted` begins below 0 or ends before
  ///         it begins.
  std::vector<shard_slice> slices(row_range wanted) const;

  friend bool operator==(const row_sharding&, const row_sharding&) = default;

private:
  std::int64_t rows_;
  std::uint32_t shards_;
  std::int64_t short_size_ = 0; ///< Rows of a shard without an additional row.
  std::int64_t longer_count_ = 0; ///< Number of shards with an additional row.
};

/// Returns the bytes of one row of a variable. A scalar is one row.
std::size_t row_bytes(const tensor_spec& variable);

} // namespace troupe::parameter_server
