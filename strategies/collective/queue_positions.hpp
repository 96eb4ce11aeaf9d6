#pragma once

#include "troupe/strategies/collective/operation.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace troupe::collective {

/// One queue, as one process sees it.
struct queue_id {
  lane_id lane = lane_id::contributions;
  std::uint32_t sender = 0, receiver = 0;
};

/// How far one process is in the queues from and to its peers, and in its
/// additions. The sender and the receiver move the cursors; the schedules read
/// them.
class queue_positions {
public:
  queue_positions(std::uint32_t processes, std::uint32_t rank)
    : rank_{rank}, peers_(processes) {}

  /// Position of the packet that is expected next from a peer.
  cursor& received(std::uint32_t peer, lane_id lane) {
    return peers_[peer].received[std::size_t(lane)];
  }
  const cursor& received(std::uint32_t peer, lane_id lane) const {
    return peers_[peer].received[std::size_t(lane)];
  }

  /// Position of the packet that is sent next to a peer.
  cursor& sent(std::uint32_t peer, lane_id lane) {
    return peers_[peer].sent[std::size_t(lane)];
  }
  const cursor& sent(std::uint32_t peer, lane_id lane) const {
    return peers_[peer].sent[std::size_t(lane)];
  }

  /// True if all contributions of the peer to a chunk have arrived. The last
  /// one is then the front packet. It is popped after the chunk has been added.
  bool& chunk_arrived(std::uint32_t peer) { return peers_[peer].chunk_arrived; }
  bool chunk_arrived(std::uint32_t peer) const {
    return peers_[peer].chunk_arrived;
  }

  /// Position of the chunk that this process adds next. `i` is always 0.
  cursor next_to_add;

  /// Returns the lowest operation that a cursor points to. The operations
  /// before it have no packet or chunk left.
  std::uint64_t first_needed() const {
    auto lowest = std::min(next_to_add.operation_number, first_to_send());
    for (std::uint32_t p = 0; p < peers_.size(); ++p)
      if (p != rank_)
        for (const auto& next : peers_[p].received)
          lowest = std::min(lowest, next.operation_number);
    return lowest;
  }

  /// Returns the lowest operation that a cursor of a queue to a peer points to.
  /// All packets of the operations before it were passed to the transport. With
  /// one process: the highest number.
  std::uint64_t first_to_send() const {
    auto lowest = ~std::uint64_t{0};
    for (std::uint32_t p = 0; p < peers_.size(); ++p)
      if (p != rank_)
        for (const auto& next : peers_[p].sent)
          lowest = std::min(lowest, next.operation_number);
    return lowest;
  }

  /// Moves all cursors to the start of a generation.
  void reset() {
    std::ranges::fill(peers_, peer{});
    next_to_add = {};
  }

private:
  struct peer {
    std::array<cursor, 2> received, sent; ///< By lane.
    bool chunk_arrived = false;
  };
  std::uint32_t rank_;
  std::vector<peer> peers_; ///< By process. The entry of `rank_` is unused.
};

} // namespace troupe::collective
