#pragma once

#include "troupe/strategies/collective/chunk_reducer.hpp"
#include "troupe/strategies/collective/schedule/packet_order.hpp"

#include <array>
#include <optional>

namespace troupe::collective {

/// A peer violated the protocol.
struct protocol_error {
  std::uint32_t process = 0; ///< Process that sent the unexpected packet.
  std::string reason;        ///< Text for people. "It" is that process.
};

/// Receives the packets of one process. It trusts no peer: a payload is read
/// only if the schedule expects its header, and if size and alignment are
/// right. What was read counts only if the packet is still intact afterwards
/// (packet_transport::is_intact).
///
///   newer generation, or not started here   the packet stays in its queue
///   older generation or step, or repeated   the packet is discarded
///   any other unexpected packet             protocol error
class receiver {
public:
  /// All arguments must outlive the receiver.
  receiver(const local_placement& placed, operation_log& log,
           const packet_order& order, queue_positions& positions);

  /// Receives the front packet of the queue from a peer, or a part of it.
  /// @returns true if a packet was received or discarded.
  bool receive(packet_transport& transport, std::uint32_t peer, lane_id lane);

  /// Adds the next chunk that this process reduces, if all contributions to the
  /// chunk have arrived.
  bool add_chunk(packet_transport& transport);

  /// The first protocol violation of a peer in this generation. Empty: none.
  const std::optional<protocol_error>& error() const { return error_; }

  /// Forgets the error. Also makes sure that the rest of a packet that has not
  /// arrived completely is written to no tensor of the old generation.
  void start_generation();

private:
  /// The front packet of a queue from a peer.
  struct front_packet {
    packet_header last; ///< Header of the last popped packet.
    /// Destination of a copy that is in progress. Empty: none.
    std::span<std::byte> destination;
    tensor destination_owner; ///< Keeps the tensor of `destination` alive.
    bool received = false;    ///< The copy of the front packet is complete.
    gather_spec spec{};       ///< Receives a gathered tensor's first piece.
  };
  enum class packet_match { expected, stale, early, mismatch };
  /// One queue of the transport.
  struct queue {
    packet_transport& transport;
    std::uint32_t peer;
    lane_id lane;
  };

  packet_match classify(const queue& from, const packet_header* expected,
                        const operation* op);
  std::optional<std::string> front_spec(const queue& from,
                                        const packet_header& header);
  bool has_size(const queue& from, std::size_t bytes);
  bool is_aligned(std::uint32_t peer, const std::byte* at, dtype type);
  bool read_into(const queue& from, std::span<std::byte> into,
                 const tensor& keep);
  bool read_spec(const queue& from, std::uint32_t bucket, tensor& target);
  bool add_local(const queue& from, const operation& op, std::uint32_t chunk,
                 const destination& to);
  bool collect(const queue& from, const operation& op, std::uint32_t first,
               const destination& to);
  bool are_contributions_intact(packet_transport& transport);
  void pop(const queue& from);
  bool discard(const queue& from);
  void discard_rest(front_packet& front, std::size_t bytes);
  void set_error(std::uint32_t process, std::string reason);
  front_packet& front_of(const queue& from) {
    return fronts_[from.peer][std::size_t(from.lane)];
  }

  const local_placement& placement_;
  operation_log& log_;
  const packet_order& order_;
  queue_positions& positions_;
  chunk_reducer reducer_;
  std::optional<protocol_error> error_;
  /// By process and lane. The entry of this process is unused.
  std::vector<std::array<front_packet, 2>> fronts_;
  tensor discard_buffer_;
};

} // namespace troupe::collective
