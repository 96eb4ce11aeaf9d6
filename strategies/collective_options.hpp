#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <string>
#include <tuple>

namespace troupe {

/// Options of one collective call. All replicas must pass equal options; each
/// receiver of a contribution compares them with its own.
struct collective_options {
  /// Algorithm of a sum over several processes. Within one process a sum on the
  /// CPU always uses the tree.
  enum class algorithm_kind : std::uint8_t {
    tree, ///< Canonical tree; see tree/reduction.hpp.
    ring, ///< Ring of processes; see collective/ring.hpp.
    /// The all-reduce of NCCL, which chooses the order of the additions. The
    /// backends for the CPU use the tree instead.
    nccl,
  } algorithm = algorithm_kind::tree;
  /// Milliseconds; timeout of each wait in the collective. Zero: not set.
  std::uint32_t timeout = 0;
  /// Tensors that are reduced in one call share packs. A new pack begins when
  /// the previous pack has more bytes than this. Zero: not set.
  std::uint64_t bytes_per_pack = 0;
  /// Number of tensors that are reduced in one call; 255 also stands for any
  /// higher number. Zero: not set.
  std::uint8_t tensors = 0;

  auto fields() {
    return std::tie(algorithm, timeout, bytes_per_pack, tensors);
  }
  friend bool operator==(const collective_options&,
                         const collective_options&) = default;
};

/// For people: "by tree", "by ring with timeout 100 ms and bytes_per_pack 8",
/// "by tree for 2 tensors".
std::string to_string(const collective_options& options);

} // namespace troupe
