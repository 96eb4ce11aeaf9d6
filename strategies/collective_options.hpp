#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <string>
#include <tuple>

namespace troupe {

/// What the call says that an exchange is for: all replicas say the same, and
/// whoever adds compares it.
struct terms {
  /// Who adds what when, over several processes; in one it is always the tree.
  enum class ways : std::uint8_t {
    tree, ///< tree_sum.hpp
    ring, ///< ring.hpp
  } way = ways::tree;
  std::uint32_t timeout = 0;        ///< Milliseconds; 0: nothing was said.
  std::uint64_t bytes_per_pack = 0; ///< 0: nothing was said.

  auto fields() { return std::tie(way, timeout, bytes_per_pack); }
  friend bool operator==(const terms&, const terms&) = default;
};

/// "by tree", "by ring with timeout 100 ms and bytes_per_pack 8".
std::string to_string(const terms& x);

} // namespace troupe
