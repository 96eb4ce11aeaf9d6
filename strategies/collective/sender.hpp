#pragma once

#include "troupe/strategies/collective/schedule/packet_order.hpp"

namespace troupe::collective {

/// Sends the packets of one process. A packet is sent when its payload is
/// available and its queue is not full. While the queue is full, later packets
/// wait in the tensors of their operations only.
class sender {
public:
  /// All arguments except the rank must outlive the sender.
  sender(std::uint32_t rank, operation_log& log, const packet_order& order,
         queue_positions& positions)
    : rank_{rank}, log_{log}, order_{order}, positions_{positions} {}

  /// Sends the next packet of the queue to a peer.
  /// @returns false if there is no packet, if its payload is not available yet,
  ///          or if the queue is full.
  bool send(packet_transport& transport, std::uint32_t peer, lane_id lane);

private:
  std::uint32_t rank_;
  operation_log& log_;
  const packet_order& order_;
  queue_positions& positions_;
};

} // namespace troupe::collective
