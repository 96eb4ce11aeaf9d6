#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <span>

namespace troupe {

/// Assigns tensors to packs: returns the index of each tensor's pack, which
/// ascends from 0 in order of the packs' first members.
/// @param bytes of each tensor.
/// @param bytes_per_pack a tensor opens a new pack when the previous one has
///             *more* than that many bytes, as in TensorFlow: 8 bytes make
///             packs of three tensors of 4 bytes. Zero: tensors below 64 KiB
///             are packed with a limit of 1 MiB, each larger tensor is a pack
///             of its own and is not copied.
pooled<std::uint32_t> pack_indices(std::span<const std::size_t> bytes,
                                   std::size_t bytes_per_pack);

/// Several float32 tensors fused into packs, and the inverse of the fusion.
class tensor_packs {
public:
  tensor_packs(const tensors& xs, std::size_t bytes_per_pack);

  /// The packs, of shape [elements]. A pack of one tensor shares its elements.
  /// Each member begins at a multiple of 16 elements; the gaps are zeros.
  const tensors& packs() const { return packs_; }

  /// Splits packs of the same sizes as `packs()` into their members, such as
  /// the sums of these packs. The members share the elements of the packs.
  tensors unpacked(const tensors& packs) const;

private:
  struct entry {
    std::uint32_t pack = 0;
    std::size_t begin = 0; ///< Offset in elements.
    shape dims;
  };
  pooled<entry> entries_;
  tensors packs_;
};

} // namespace troupe
