#pragma once

#include "troupe/strategies/parameter_server/row_sharding.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

// Reads and writes of some rows of a sharded variable: which rows each shard
// has to read or write, and where they are in the request of the caller.
//
//   const auto routed = route(sharding, "table", ids);
//   read:  for each shard, ask for routed.rows(shard); then put the answer with
//          scatter_rows at routed.positions(shard) of the result
//   write: for each shard, take the values at routed.positions(shard) with
//          gather_rows, and send them with routed.rows(shard)

namespace troupe::parameter_server {

/// Ids of rows, sorted by the shard that holds the row. The ids of one shard
/// keep their order. An id that occurs twice is in the lists twice.
class routed_rows {
public:
  /// Returns the rows of a shard, counted from its first row.
  /// @errors throws std::logic_error if there is no such shard.
  std::span<const std::int64_t> rows(std::uint32_t shard) const;
  /// Returns the positions of these rows in the list that was routed,
  /// ascending.
  /// @errors throws std::logic_error if there is no such shard.
  std::span<const std::size_t> positions(std::uint32_t shard) const;
  std::uint32_t shards() const {
    return static_cast<std::uint32_t>(begins_.size() - 1);
  }

private:
  friend routed_rows route(const row_sharding&, std::string_view,
                           std::span<const std::int64_t>);
  void check(std::uint32_t shard) const;

  std::vector<std::int64_t> rows_;     ///< By shard.
  std::vector<std::size_t> positions_; ///< By shard.
  /// By shard: where its rows and positions begin. The last one is their
  /// number.
  std::vector<std::size_t> begins_{0};
};

/// Sorts ids of rows by the shard that holds the row.
/// @param name name of the variable, for errors.
/// @errors throws std::out_of_range that names the first id that is not a row,
///         its position, the variable and the number of its rows.
/// @cost reads the ids twice; allocates 16 bytes for each id and 8 for each
///       shard.
routed_rows route(const row_sharding& sharding, std::string_view name,
                  std::span<const std::int64_t> ids);

/// Ids of rows without repetitions.
struct distinct_rows {
  std::vector<std::int64_t> rows; ///< Ascending.
  /// By id: where its row is in `rows`.
  std::vector<std::size_t> positions;
};

/// Returns the rows that occur in a list, so that each is asked for once.
/// @param ids not negative.
/// @cost sorts the ids (`order_by_row`), unless they are ascending and
/// distinct.
distinct_rows distinct(std::span<const std::int64_t> ids);

/// Copies row `positions[i]` of `from` to row i of `into`.
/// @errors throws std::logic_error if `into` has not one row for each position,
///         or if a position is no row of `from`.
void gather_rows(std::span<const std::byte> from,
                 std::span<const std::size_t> positions, std::size_t row_bytes,
                 std::span<std::byte> into);

/// Copies row i of `from` to row `positions[i]` of `into`.
/// @errors throws std::logic_error if `from` has not one row for each position,
///         or if a position is no row of `into`.
void scatter_rows(std::span<const std::byte> from,
                  std::span<const std::size_t> positions, std::size_t row_bytes,
                  std::span<std::byte> into);

} // namespace troupe::parameter_server
