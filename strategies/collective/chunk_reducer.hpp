#pragma once

#include "troupe/strategies/collective/operation.hpp"

#include <vector>

namespace troupe::collective {

/// Adds the chunks that this process reduces in a sum by tree. It collects the
/// contributions of the peers to one chunk at a time.
class chunk_reducer {
public:
  /// @param placed must outlive the reducer.
  explicit chunk_reducer(const local_placement& placed);

  /// Returns the receive buffer of a contribution, `max_packet_bytes` bytes.
  /// @param first the first replica of the subtree that the contribution sums.
  const tensor& buffer_of(std::uint32_t first);

  /// Notes the payload of a contribution, which must stay valid until `reduce`.
  void collect(std::uint32_t first, const std::byte* payload) {
    sums_[first] = payload;
  }

  /// Computes the sum of a chunk in the operation's output. @pre `collect` was
  /// called for all contributions of the peers to the chunk.
  void reduce(const operation& op, std::uint32_t chunk);

private:
  const local_placement& placement_;
  /// By replica. At the first replica of a subtree of a peer: the end of the
  /// subtree. At a local replica: the replica itself, plus 1.
  std::vector<std::uint32_t> subtree_ends_;
  /// By replica. Empty: not used yet.
  std::vector<tensor> buffers_;
  /// Sums of the chunk over the subtrees of `subtree_ends_`.
  std::vector<const std::byte*> sums_;
};

} // namespace troupe::collective
