#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe {

/// Rows [begin, end) of a batch.
struct share {
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const share&, const share&) = default;
};

/// Shard `id` of a batch that is cut into `shards`. The shards are consecutive
/// in order of id. Their sizes differ by at most one row, and the larger ones
/// come first. A shard of a small batch may be empty.
inline share share_of(std::int64_t rows, std::uint32_t id,
                      std::uint32_t parts) {
  const std::int64_t base = rows / parts, longer = rows % parts;
  const auto begin = base * id + std::min<std::int64_t>(id, longer);
  return {begin, begin + base + (id < longer ? 1 : 0)};
}

/// Rows of the consecutive shards [first, last).
/// @pre `first < last`.
inline share share_of(std::int64_t rows, std::uint32_t first,
                      std::uint32_t last, std::uint32_t parts) {
  return {share_of(rows, first, parts).begin,
          share_of(rows, last - 1, parts).end};
}

} // namespace troupe
