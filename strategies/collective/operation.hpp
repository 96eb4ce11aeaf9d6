#pragma once

#include "troupe/strategies/collective/packet.hpp"

#include <algorithm>
#include <compare>

namespace troupe::collective {

/// One collective of a step, as one process sees it.
struct operation {
  /// `contribution`: a sum. `gather_contribution`: a gather.
  packet_kind kind = packet_kind::contribution;
  std::uint64_t step = 0;     ///< Step that the operation belongs to.
  std::uint32_t sequence = 0; ///< Index in the step, from 0.
  std::uint32_t bucket = 0;   ///< Bucket of the sum, or number of the gather.
  /// Replica that called the collective first.
  std::uint32_t first_contributor = 0;
  collective_options options;
  tensor_spec spec; ///< Spec of the bucket. Unused by a gather.
  chunking chunks;  ///< Chunks of the bucket. Unused by a gather.
  output_placement result_placement = output_placement::separate;
  bool started = false; ///< All local replicas have contributed.
  /// Number of chunks or gathered tensors that are not complete here; set
  /// when the operation starts. For an all-to-all bucket it also counts each
  /// peer to which this process has packets left to send.
  std::uint32_t remaining = 0;
  /// Contributions of the local replicas, by ascending replica id.
  tensors inputs;
  tensor output;    ///< The sum. Unused by a gather.
  tensors gathered; ///< Gathered tensors by replica id.

  bool is_gather() const { return kind == packet_kind::gather_contribution; }
  bool is_complete() const { return started && remaining == 0; }

  /// Returns the offset of a chunk in the bucket, in bytes.
  std::size_t chunk_offset(std::uint32_t chunk) const {
    return chunks.chunk_elements * chunk * size_of(spec.type);
  }
  /// Returns the size of a chunk, in bytes.
  std::size_t chunk_bytes(std::uint32_t chunk) const {
    const auto size = size_of(spec.type);
    return std::min(chunks.chunk_elements * size,
                    spec.dims.elements() * size - chunk_offset(chunk));
  }
  /// Returns the elements of a chunk in a tensor that has the spec of the
  /// bucket.
  std::span<std::byte> chunk_of(const tensor& bucket_tensor,
                                std::uint32_t chunk) const {
    return {bucket_tensor.raw() + chunk_offset(chunk), chunk_bytes(chunk)};
  }
};

/// Position of a packet in a queue. `j` and `i` are indices, from 0, within the
/// operation. Their meaning depends on the packet:
///   contribution to a sum by tree
///                j: index of the chunk among the chunks that the receiver adds
///                i: index of the subtree among the subtrees that the sender
///                hosts
///   result of a sum by tree
///                j: index of the chunk among the chunks that the sender adds
///                i: always 0
///   gather       j: index of the replica among the replicas of the sender
///                i: index of the piece of the replica's tensor
///   sum by ring  j: index of the group of chunks (`ring`)
///                i: index of the hop in the group
struct cursor {
  /// Number of the operation, counted from 0 in each generation.
  std::uint64_t operation_number = 0;
  std::uint32_t j = 0;
  std::uint32_t i = 0;

  auto operator<=>(const cursor&) const = default;
};

} // namespace troupe::collective
