#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <span>

namespace troupe {

/// Which of several tensors travel as one: the number of each one's pack,
/// ascending from 0 in order of the packs' first members.
/// @param bytes          of each tensor.
/// @param bytes_per_pack a tensor opens a pack when the one before has *more*
///        than that many bytes, as in TensorFlow, so that packs of tensors of 4
///        bytes hold 3 of them for 8. 0: what is below 64 KiB travels in packs
///        of 1 MiB and a bit, all else alone, as it need not be copied then.
pooled<std::uint32_t> packs_of(std::span<const std::size_t> bytes,
                               std::size_t bytes_per_pack);

/// Several float32 tensors as a few: the packs, and what comes of them.
class packed {
public:
  packed(const tensors& xs, std::size_t bytes_per_pack);

  /// [elements] each; a pack of one tensor shares its elements. Gaps between
  /// members, which make each begin at a multiple of 16 elements, are zeros.
  const tensors& packs() const { return packs_; }

  /// The same members of other packs of the same sizes, shared with them.
  tensors unpacked(const tensors& packs) const;

private:
  struct member {
    std::uint32_t pack = 0;
    std::size_t begin = 0; ///< Elements.
    shape dims;
  };
  pooled<member> members_;
  tensors packs_;
};

} // namespace troupe
