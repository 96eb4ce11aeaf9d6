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

/// Part `id` of a batch that is cut in `parts`: they follow each other in order
/// of id, any two differ by at most one row, the longer ones come first. A
/// short batch is cut alike, so a part may be empty.
inline share share_of(std::int64_t rows, std::uint32_t id,
                      std::uint32_t parts) {
  const std::int64_t base = rows / parts, longer = rows % parts;
  const auto begin = base * id + std::min<std::int64_t>(id, longer);
  return {begin, begin + base + (id < longer ? 1 : 0)};
}

/// Parts [first, last) of them, side by side. @pre `first < last`.
inline share share_of(std::int64_t rows, std::uint32_t first,
                      std::uint32_t last, std::uint32_t parts) {
  return {share_of(rows, first, parts).begin,
          share_of(rows, last - 1, parts).end};
}

} // namespace troupe
