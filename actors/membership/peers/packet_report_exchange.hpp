#pragma once

#include "troupe/actors/membership/peers/peer_connections.hpp"

namespace troupe {

/// Exchanges with the other processes how many packets each of them was sent,
/// so that the receiver notices that the last one is lost.
class packet_report_exchange {
public:
  /// @param context     must outlive this object.
  /// @param connections must outlive this object.
  packet_report_exchange(const membership_context& context,
                         peer_connections& connections)
    : context_{context}, connections_{connections} {}

  /// Reports to the other processes how many packets they were sent. If a
  /// report cannot be sent, the next one replaces it.
  void on_interval();
  /// Another process reports how many packets it has sent.
  void on(peer_connection& sender, const net::frame& frame);

private:
  const membership_context& context_;
  peer_connections& connections_;
};

} // namespace troupe
