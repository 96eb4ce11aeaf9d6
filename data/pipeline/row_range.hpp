#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace troupe {

/// Rows [begin, end) of a batch.
struct row_range {
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const row_range&, const row_range&) = default;
};

/// Returns the rows of shard `id` of a batch that is cut into `shards` shards.
/// Shards are consecutive in order of id. Their sizes differ by at most one
/// row, and the larger shards come first. A shard of a small batch may be
/// empty.
inline row_range shard_of(std::int64_t rows, std::uint32_t id,
                          std::uint32_t shards) {
  const std::int64_t base = rows / shards, longer = rows % shards;
  const auto begin = base * id + std::min<std::int64_t>(id, longer);
  return {begin, begin + base + (id < longer ? 1 : 0)};
}

/// Returns the rows of all shards in [first, last).
/// @pre `first < last`.
inline row_range shard_of(std::int64_t rows, std::uint32_t first,
                          std::uint32_t last, std::uint32_t shards) {
  return {shard_of(rows, first, shards).begin,
          shard_of(rows, last - 1, shards).end};
}

/// Returns the rows of all shards in [first, last) of a batch that is divided
/// by shares. Shard i gets the fraction `shares[i]` / (sum of `shares`) of the
/// rows, rounded down. Each remaining row goes to the shard whose size was
/// rounded down most; of equal ones, to the shard with the lowest id. Equal
/// shares give the shards of `shard_of` without shares.
/// @pre `first < last <= shares.size()`; every share is in [1, `max_share`].
/// @cost O(n log n) for n shares.
row_range shard_of(std::int64_t rows, std::uint32_t first, std::uint32_t last,
                   std::span<const std::uint32_t> shares);

/// Maximum value of a share.
inline constexpr std::uint32_t max_share = 1'000'000;

} // namespace troupe
