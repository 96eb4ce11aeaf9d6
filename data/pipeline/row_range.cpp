#include "troupe/data/pipeline/row_range.hpp"

#include "troupe/tensors/base/memory.hpp"

#include <numeric>

namespace troupe {

row_range shard_of(std::int64_t rows, std::uint32_t first, std::uint32_t last,
                   std::span<const std::uint32_t> shares) {
  const auto total =
    std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  // `rows * share` could exceed the range of the type.
  const auto whole = rows / total, rest = rows % total;
  pooled<std::int64_t> sizes, remainders;
  pooled<std::uint32_t> ids;
  auto remaining = rows;
  for (const auto share : shares) {
    sizes.push_back(whole * share + rest * share / total);
    remainders.push_back(rest * share % total);
    ids.push_back(static_cast<std::uint32_t>(ids.size()));
    remaining -= sizes.back();
  }
  std::ranges::sort(ids, [&](std::uint32_t a, std::uint32_t b) {
    return remainders[a] != remainders[b] ? remainders[a] > remainders[b]
                                          : a < b;
  });
  for (std::size_t i = 0; i < static_cast<std::size_t>(remaining); ++i)
    ++sizes[ids[i]];
  const auto begin =
    std::accumulate(sizes.begin(), sizes.begin() + first, std::int64_t{0});
  return {begin,
          std::accumulate(sizes.begin() + first, sizes.begin() + last, begin)};
}

} // namespace troupe
