#pragma once

#include "troupe/strategies/spec_codec.hpp"
#include "troupe/strategies/tensor_transfer/packet.hpp"

#include <map>
#include <optional>
#include <span>
#include <vector>

namespace troupe::tensor_transfer {

/// The sending side of the transfers of one lane (packet.hpp). A tensor that is
/// sent must not change until it has arrived. It is held until then, because
/// the peer may read it in place.
class sender {
public:
  explicit sender(const lane_ends& ends) : ends_{ends} {}

  /// Adds a transfer.
  /// @param channel channel that carries the message of these tensors.
  /// @param message tag of this message.
  /// @returns the number of the transfer.
  /// @pre the tensors are not empty handles and have at least one byte each;
  ///      `max_tensors` and `max_transfer_bytes` are not exceeded.
  /// @errors throws std::logic_error if the precondition does not hold.
  std::uint64_t send(std::uint32_t channel, std::uint64_t message,
                     tensors values);

  /// Ends a transfer. No effect if it has ended. The peer may still read what
  /// was sent, so its tensors are held until `release_cancelled`.
  void cancel(std::uint64_t transfer);

  /// True if tensors of cancelled transfers are held.
  bool holds_cancelled() const { return !cancelled_.empty(); }
  /// The peer reads nothing any more that was sent of cancelled transfers.
  void release_cancelled() { cancelled_.clear(); }

  /// Handles a packet of the receiver. @pre its kind is not for a receiver.
  reaction on(const packet_header& packet, std::size_t payload_bytes);

  struct outgoing {
    packet_header header;
    std::span<const std::byte> payload; ///< Valid until `sent` or `cancel`.
  };
  /// Returns the packet to send next. Nullopt: the sender has to wait.
  std::optional<outgoing> next();
  /// The owner has sent the packet that `next` returned last.
  void sent();

  /// Number of transfers that have not ended.
  std::size_t transfers() const { return transfers_.size(); }
  /// Bytes of the tensors of these transfers.
  std::size_t held_bytes() const { return held_bytes_; }

private:
  enum class phase : std::uint8_t { queued, offered, cancelling };
  struct transfer {
    std::uint32_t channel = 0;
    std::uint64_t message = 0;
    tensors values;
    std::size_t bytes = 0;
    phase current = phase::queued;
    std::size_t granted = 0;
    std::size_t position = 0; ///< Bytes that were sent.
    std::size_t index = 0;    ///< Tensor whose bytes are sent next.
    std::size_t offset = 0;   ///< Bytes of this tensor that were sent.
    bool spec_sent = false;   ///< The spec of this tensor was sent.
  };
  using entry = std::map<std::uint64_t, transfer>::iterator;

  packet_header header_of(packet_kind kind, std::uint64_t number) const;
  std::optional<outgoing> offer_next();
  std::optional<outgoing> next_of(entry it);
  reaction on_grant(entry it, const packet_header& packet);

  lane_ends ends_;
  std::map<std::uint64_t, transfer> transfers_; ///< By number.
  std::uint64_t last_ = 0; ///< Number of the last transfer.
  std::size_t open_ = 0;   ///< Transfers that were offered.
  /// Number of the first transfer that was not offered; all later ones were not
  /// offered either.
  std::uint64_t first_queued_ = 1;
  std::uint64_t turn_ = 0; ///< Transfer of the last packet.
  std::size_t held_bytes_ = 0;
  std::vector<tensors> cancelled_;
  std::optional<packet_header> pending_; ///< Header that `next` returned last.
  std::size_t pending_bytes_ = 0;        ///< Size of its payload.
  spec_bytes spec_{};                    ///< Payload of a pending spec.
};

} // namespace troupe::tensor_transfer
