#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <span>

namespace troupe {

/// Returns the index of the pack of each tensor. Packs are numbered from 0 in
/// the order of their first tensors.
/// @param bytes size of each tensor.
/// @param bytes_per_pack a tensor opens a new pack when the previous pack has
///        *more* bytes than this limit, as in TensorFlow. For example, with a
///        limit of 8 bytes a pack has three tensors of 4 bytes. Zero: tensors
///        below 64 KiB share packs of at most 1 MiB. Each larger tensor is a
///        pack of its own and is not copied.
pooled<std::uint32_t> pack_indices(std::span<const std::size_t> bytes,
                                   std::size_t bytes_per_pack);

/// Fuses float32 tensors into packs, and splits packs into tensors again.
class tensor_packs {
public:
  /// @param xs on one device.
  tensor_packs(const tensors& xs, std::size_t bytes_per_pack);

  /// Returns the packs, of shape [elements]. A pack of one tensor shares the
  /// elements of that tensor. In other packs each tensor begins at a multiple
  /// of 16 elements, and zeros fill the gaps.
  const tensors& packs() const { return packs_; }

  /// Splits packs, such as the sums of `packs()`, into tensors. The packs must
  /// have the sizes of `packs()`. The tensors share the elements of the packs.
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
