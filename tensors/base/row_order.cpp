#include "troupe/tensors/base/row_order.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

namespace troupe {

namespace {

/// Below this length of a list, a sort by comparisons is faster.
constexpr std::size_t min_radix_sort = 512;

/// Sorts by row, digit by digit from the lowest one. Positions of one row keep
/// their order.
/// @source Knuth, The Art of Computer Programming, volume 3, 5.2.5.
void radix_sort(pooled<row_position>& list, std::int64_t max_row) {
  constexpr unsigned digit_bits = 11;
  constexpr std::size_t digits = std::size_t{1} << digit_bits;
  pooled<row_position> sorted(list.size());
  for (unsigned shift = 0; shift < 64 && max_row >> shift > 0;
       shift += digit_bits) {
    const auto digit = [shift](const row_position& x) {
      return static_cast<std::size_t>(x.row >> shift) % digits;
    };
    // Where the next number with this digit comes.
    std::array<std::uint32_t, digits> next{};
    for (const auto& x : list)
      ++next[digit(x)];
    std::exclusive_scan(next.begin(), next.end(), next.begin(),
                        std::uint32_t{0});
    for (const auto& x : list)
      sorted[next[digit(x)]++] = x;
    list.swap(sorted);
  }
}

} // namespace

pooled<row_position> order_by_row(std::span<const std::int64_t> rows) {
  pooled<row_position> out(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    out[i] = {rows[i], i};
  if (out.size() >= min_radix_sort
      && out.size() <= std::numeric_limits<std::uint32_t>::max())
    radix_sort(out, std::ranges::max(rows));
  else
    std::ranges::sort(out, {}, [](const row_position& x) {
      return std::pair{x.row, x.at};
    });
  return out;
}

} // namespace troupe
