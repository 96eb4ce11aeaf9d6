#pragma once

#include "troupe/strategies/placement.hpp"

#include <vector>

namespace troupe::testing {

/// Process p hosts replicas [first[p], first[p + 1]).
inline placement placement_of(const std::vector<std::uint32_t>& first) {
  std::vector<std::uint32_t> counts;
  for (std::size_t p = 0; p + 1 < first.size(); ++p)
    counts.push_back(first[p + 1] - first[p]);
  return placement::contiguous(counts);
}

} // namespace troupe::testing
