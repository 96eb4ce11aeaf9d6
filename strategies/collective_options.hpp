#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <string>
#include <tuple>

namespace troupe {

/// Options of one collective call. All replicas must pass equal options; the
/// reducer of the collective compares them.
struct collective_options {
  /// Algorithm over several processes. Within one process it is always the
  /// tree.
  enum class algorithm_kind : std::uint8_t {
    tree, ///< See tree/reduction.hpp.
    ring, ///< See collective/ring.hpp.
  } algorithm = algorithm_kind::tree;
  std::uint32_t timeout = 0;        ///< Milliseconds. Zero: not set.
  std::uint64_t bytes_per_pack = 0; ///< Bytes. Zero: not set.

  auto fields() { return std::tie(algorithm, timeout, bytes_per_pack); }
  friend bool operator==(const collective_options&,
                         const collective_options&) = default;
};

/// For people: "by tree", "by ring with timeout 100 ms and bytes_per_pack 8".
std::string to_string(const collective_options& options);

} // namespace troupe
