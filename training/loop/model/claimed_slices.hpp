#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>

namespace troupe {

/// Elements [begin, end) of a buffer.
struct element_range {
  std::size_t begin = 0, end = 0;
};

/// Divides ranges into slices, which the replicas of a process claim one by
/// one. A replica that is late leaves its slices to the other replicas.
/// Claiming allocates nothing and throws nothing.
class claimed_slices {
public:
  /// Makes all slices claimable.
  /// @pre no replica claims slices until it has waited at a barrier for this
  ///      call.
  void reset() { next_.store(0, std::memory_order_relaxed); }

  /// Calls `fn(index of range, begin, end)` for each slice that this call
  /// claims. Returns when all slices are claimed; other replicas may still work
  /// on theirs.
  /// @param ranges equal on all replicas.
  /// @param elements number of elements of a slice; equal on all replicas.
  template <class F>
  void for_each(std::span<const element_range> ranges, std::size_t elements,
                const F& fn) {
    std::size_t first = 0; // Number of the first slice of the range.
    auto claimed = next_.fetch_add(1, std::memory_order_relaxed);
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      const auto [begin, end] = ranges[r];
      const auto slices = (end - begin + elements - 1) / elements;
      for (; claimed < first + slices;
           claimed = next_.fetch_add(1, std::memory_order_relaxed)) {
        const auto from = begin + (claimed - first) * elements;
        fn(r, from, std::min(end, from + elements));
      }
      first += slices;
    }
  }

private:
  std::atomic<std::size_t> next_ = 0;
};

/// Number of elements of a slice that is never smaller than its range.
inline constexpr auto whole_ranges = std::size_t{1} << 48;

/// Returns the number of elements of a slice: many slices in a layer, but
/// enough elements for all op threads of a replica.
constexpr std::size_t slice_elements(int threads) {
  return std::size_t{16 * 1024} * static_cast<std::size_t>(threads);
}

} // namespace troupe
