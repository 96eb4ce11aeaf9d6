#pragma once

#include "troupe/strategies/spec_codec.hpp"
#include "troupe/strategies/tensor_transfer/packet.hpp"

#include <map>
#include <optional>
#include <set>
#include <span>

namespace troupe::tensor_transfer {

/// Limits of the memory that a receiver uses.
struct receiver_limits {
  /// Bytes that the sender of a transfer may be ahead of the receiver.
  std::size_t window_bytes = std::size_t{4} << 20;
  /// Bytes of the admitted transfers of one channel that are not released. A
  /// larger transfer is admitted if the channel has no other.
  std::size_t max_channel_bytes = std::size_t{256} << 20;
  /// Bytes of all admitted transfers that are not released. A larger transfer
  /// is admitted if there is no other.
  std::size_t max_bytes = std::size_t{4} << 30;
};

/// The receiving side of the transfers of one lane (packet.hpp).
class receiver {
public:
  explicit receiver(const lane_ends& ends, const receiver_limits& limits = {})
    : ends_{ends}, limits_{limits} {}

  /// Admits transfers to a channel from now on. Transfers to channels that are
  /// not open wait.
  void open_channel(std::uint32_t channel);
  /// Refuses all transfers to a channel that have not arrived, and releases the
  /// others.
  void close_channel(std::uint32_t channel);
  /// Releases a transfer that has arrived. No effect if it was released.
  void release(std::uint64_t transfer);

  /// Returns the channels that are not open and to which a transfer was
  /// offered, each once.
  std::set<std::uint32_t> unopened_channels() const;
  /// True if the tensors of this message were offered, and the limits of this
  /// receiver hold them back.
  bool holds_back(std::uint32_t channel, std::uint64_t message) const;

  /// Destination of the payload of a packet, and the effects of the packet.
  struct placement {
    /// Memory that takes the whole payload. Empty: the owner discards the
    /// payload.
    std::span<std::byte> destination;
    reaction effects;
  };
  /// Handles the header of a packet. If there is a destination, the owner
  /// copies the payload there and calls `finish`. Other functions may be called
  /// before; the destination stays valid.
  /// @pre the packet's kind is for a receiver.
  placement begin(const packet_header& packet, std::size_t payload_bytes);
  /// Handles the payload. @pre it is complete in the destination that the last
  /// `begin` returned.
  reaction finish();

  /// Returns the packet to send next; it has no payload. Nullopt: none.
  std::optional<packet_header> next() const;
  /// The owner has sent this packet, which `next` has returned.
  void sent(const packet_header& packet);

  /// Bytes that admitted transfers have reserved and that are not released.
  std::size_t reserved_bytes() const { return reserved_bytes_; }
  /// Bytes of the tensors that were allocated and are not released.
  std::size_t allocated_bytes() const { return allocated_bytes_; }

private:
  enum class phase : std::uint8_t { offered, admitted, complete, refused };
  struct transfer {
    std::uint32_t channel = 0;
    std::uint64_t message = 0;
    std::size_t bytes = 0, count = 0;
    std::size_t reserved = 0; ///< Bytes that are reserved for an admitted one.
    phase current = phase::offered;
    std::size_t granted = 0;
    std::size_t position = 0;  ///< Bytes that have arrived.
    std::size_t offset = 0;    ///< Bytes of the last tensor that have arrived.
    std::size_t allocated = 0; ///< Bytes of all tensors in `values`.
    tensors values;
    bool notice_due = false; ///< A packet about the phase must be sent.
  };
  struct reservation {
    std::uint32_t channel = 0;
    std::size_t reserved = 0, allocated = 0;
  };

  reaction on_offer(const packet_header& packet, std::size_t payload_bytes);
  placement on_spec(transfer& x, const packet_header& packet,
                    std::size_t payload_bytes);
  placement on_chunk(transfer& x, const packet_header& packet,
                     std::size_t payload_bytes);
  reaction on_cancel(const packet_header& packet, std::size_t payload_bytes);
  reaction finish_spec(transfer& x);
  reaction finish_chunk(transfer& x);
  reaction complete(transfer& x);
  void admit();
  void unreserve(const reservation& x);

  lane_ends ends_;
  receiver_limits limits_;
  std::map<std::uint64_t, transfer> transfers_; ///< Open ones, by number.
  /// Transfers that have arrived and are not released, by number.
  std::map<std::uint64_t, reservation> delivered_;
  /// Reserved bytes of each open channel.
  std::map<std::uint32_t, std::size_t> channels_;
  std::uint64_t last_ = 0; ///< Number of the last offer.
  std::size_t reserved_bytes_ = 0, allocated_bytes_ = 0;

  // The packet between `begin` and `finish`.
  packet_header current_;
  std::size_t current_bytes_ = 0;
  spec_bytes spec_{};
  tensor target_; ///< Keeps the destination alive.
};

} // namespace troupe::tensor_transfer
