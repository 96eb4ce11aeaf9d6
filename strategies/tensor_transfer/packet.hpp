#pragma once

#include "troupe/strategies/packet_codec.hpp"
#include "troupe/tensors/tensor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

/// Tensors point to point, from one role to another of a peer process. The
/// tensors of one message are one transfer; the message itself takes another
/// way. Each process runs a `sender` (sender.hpp) and a `receiver`
/// (receiver.hpp) per lane. Their owner passes them the packets of the lane.
///
///   who      a sender and a receiver in two processes, connected by a lane
///   messages sender: offer, with the number and total size of the tensors;
///            spec, the shape and dtype of the next tensor; chunk, at most
///            256 KiB of its elements; cancel
///            receiver: grant, the position up to which the transfer may be
///            sent; received; refuse
///   start    with the owner's `send`; the sender offers the transfer as soon
///            as fewer than `max_transfers` are open
///   on offer   the receiver admits it when its channel is open and the
///              transfer fits the byte limits; it reserves all its bytes, and
///              grants the first `window_bytes`
///   on grant   the sender sends specs and chunks up to the granted position,
///              and takes turns between the transfers
///   on spec    the receiver allocates the tensor
///   on chunk   the receiver keeps it in the tensor. When half of the window
///              is used, it grants more. With the last chunk it sends received
///              and hands the tensors to its owner
///   on release  (by the receiver's owner, when the role has read the message)
///               the reservation ends, and waiting transfers are admitted
///   on cancel  (the sender's owner gives up) the receiver drops the tensors
///   on refuse  (the receiver closes the channel) the sender drops the
///              tensors, and answers with cancel
///   end      received, or cancel; then the number is not used again
///   cost     3 packets per transfer, 1 per tensor, 1 per chunk, and 1 grant
///            per half window. One and a half round trips. The receiver's
///            memory is at most `max_bytes`, or one transfer; the sender copies
///            nothing. It keeps the tensors until it has sent them
///   order    the tensors of a transfer one after the other, each from front to
///            back. The transfers of a channel are admitted in the order of
///            their offers. A transfer that waits does not delay transfers of
///            other channels, unless `max_bytes` is used up
///   faults   another generation or incarnation, a repeated packet, or a packet
///            of a transfer that has ended -> ignored
///            a size beyond the limits, a wrong position, more than was
///            granted, more transfers than permitted, an unknown transfer ->
///            protocol_error: the owner closes the lane
///            no grant in time -> the sender's owner cancels the transfer
namespace troupe::tensor_transfer {

enum class packet_kind : std::uint8_t {
  offer,
  spec,
  chunk,
  cancel,
  grant,
  received,
  refuse,
};

/// Header of a packet. Fields that a kind does not use are zero.
struct packet_header {
  /// Number of the membership view under which the lane was opened. The
  /// leader assigns it; zero between a client and a node.
  std::uint64_t generation = 0;
  /// Incarnation of the process that sends the packet.
  std::uint64_t incarnation = 0;
  /// Number of the transfer. The sender counts its transfers on a lane, from 1.
  std::uint64_t transfer = 0;
  /// `chunk`: bytes of the transfer before the payload, counted over all its
  /// tensors. `grant`: position up to which the sender may send.
  std::uint64_t position = 0;
  /// `offer`: bytes of all tensors together.
  std::uint64_t bytes = 0;
  /// `offer`: tag of the message to which the tensors belong. The sender of the
  /// message assigns it.
  std::uint64_t message = 0;
  /// `offer`: number of the channel that carries the message.
  std::uint32_t channel = 0;
  /// `offer`: number of tensors. `spec`: index of the tensor, from 0.
  std::uint32_t tensors = 0;
  packet_kind kind = packet_kind::offer;
  std::array<std::uint8_t, 7> padding{}; ///< Always 0.

  friend bool operator==(const packet_header&, const packet_header&) = default;
};

packet_header_bytes write(const packet_header& header);
/// Reads a header. Accepts any bytes.
packet_header read(const packet_header_bytes& bytes);

/// True if packets of this kind are for the receiver of a process. False: they
/// are for its sender, or the kind is unknown.
bool is_for_receiver(packet_kind kind);

/// Maximum number of transfers that a sender has offered and that have not
/// ended. The messages that a connection with 65 channels may have in flight,
/// 16 for each channel, are fewer. So the messages of a stopped role do not
/// keep those of other roles from being offered.
inline constexpr std::size_t max_transfers = 1040;
/// Maximum bytes of the tensors of one transfer.
inline constexpr std::size_t max_transfer_bytes = std::size_t{1} << 30;
/// Maximum number of tensors of one transfer.
inline constexpr std::size_t max_tensors = 65'536;

/// The two ends of a lane. Packets of other ends are ignored.
struct lane_ends {
  std::uint64_t generation = 0;  ///< As in `packet_header`.
  std::uint64_t incarnation = 0; ///< Incarnation of this process.
  std::uint64_t peer = 0;        ///< Incarnation of the peer.
};

/// All tensors of a transfer have arrived. Their bytes stay reserved until the
/// owner releases the transfer.
struct arrived {
  std::uint64_t transfer = 0;
  std::uint32_t channel = 0;
  std::uint64_t message = 0; ///< Tag of the message, as in the offer.
  troupe::tensors tensors;
};
/// The sender has cancelled a transfer that the owner has not received.
struct cancelled {
  std::uint64_t transfer = 0;
  std::uint32_t channel = 0;
  std::uint64_t message = 0; ///< Tag of the message, as in the offer.
};
/// The receiver has all tensors of a transfer.
struct delivered {
  std::uint64_t transfer = 0;
};
/// The receiver does not take a transfer, because it has closed the channel.
struct refused {
  std::uint64_t transfer = 0;
};
/// The peer violated the protocol.
struct protocol_error {
  std::string reason;
};
using effect =
  std::variant<arrived, cancelled, delivered, refused, protocol_error>;
using reaction = std::vector<effect>;

/// Returns the reaction to a packet of a peer that violates the protocol.
reaction violation(const packet_header& packet, const std::string& reason);

} // namespace troupe::tensor_transfer
