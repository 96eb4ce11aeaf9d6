#pragma once

#include "troupe/net/base/close_reason.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <vector>

namespace troupe::net {

/// Size of a packet's header in bytes. A lane does not interpret the header.
inline constexpr std::size_t packet_header_size = 64;
/// Maximum size of a packet's payload in bytes.
inline constexpr std::size_t max_packet_bytes = std::size_t{256} * 1024;
/// Maximum number of lanes that two processes open by one `open_lanes`.
inline constexpr std::uint32_t max_lanes = 16;

using packet_header = std::array<std::byte, packet_header_size>;

/// Carries packets between two processes in both directions, in order per
/// direction. A packet is a header and at most `max_packet_bytes` of payload. A
/// lane holds a bounded number of packets. Its functions never block. It has no
/// thread: it makes progress only while one of its functions runs. Only one
/// thread at a time may call them.
class lane {
public:
  virtual ~lane() = default;

  // -- sending ----------------------------------------------------------------

  /// Returns the buffer for the payload of the next packet: 64-byte aligned,
  /// `max_packet_bytes` long. Until `post`, further calls return this buffer.
  /// Empty: there is no space now.
  virtual std::span<std::byte> reserve() = 0;

  /// Sends a header and the first `bytes` bytes of the reserved buffer. @pre
  /// the last `reserve` returned a buffer.
  virtual void post(const packet_header& header, std::size_t bytes) = 0;

  /// Sends a header and the bytes as payload. The caller may change the bytes
  /// when the call has returned.
  /// @returns false if there is no space now, or the lane has ended.
  virtual bool post(const packet_header& header,
                    std::span<const std::byte> bytes) = 0;

  /// Sends a header and the bytes as payload, without a copy if the lane can.
  /// The caller must not change the bytes until `flush` returns true, or the
  /// lane is destroyed.
  /// @returns false if there is no space now, or the lane has ended.
  virtual bool post_zero_copy(const packet_header& header,
                              std::span<const std::byte> bytes) {
    return post(header, bytes);
  }

  /// Continues to send the packets that were posted.
  /// @returns true if all posted packets have left this process, and the peer
  ///          has released all zero-copy payloads.
  virtual bool flush() = 0;

  /// As `flush`, but waits for no peer: it causes no event when the peer has
  /// released the zero-copy payloads.
  virtual void send_posted() { flush(); }

  // -- receiving --------------------------------------------------------------

  /// Returns the header of the front packet, the oldest packet that was not
  /// popped. The header is a copy that the peer cannot change. Null: no packet
  /// has arrived.
  virtual const packet_header* front() = 0;

  /// Returns the payload size of the front packet in bytes. @pre `front`
  /// returned a header.
  virtual std::size_t front_bytes() const = 0;

  /// Returns the payload of the front packet without a copy, valid until `pop`.
  /// Empty: the payload must be read by `fetch`.
  virtual std::span<const std::byte> view() = 0;

  /// Copies the payload of the front packet to a buffer of at least
  /// `front_bytes` bytes. While it returns false, the caller repeats the call
  /// with the same buffer. Bytes that an earlier call has copied are not copied
  /// again. Only a caller that discards the payload may pass another buffer.
  /// @returns true if all bytes have arrived and are valid.
  virtual bool fetch(std::span<std::byte> into) = 0;

  /// Returns true if the payload of the front packet cannot have changed while
  /// it was read. A peer that has ended the lane no longer keeps the payloads
  /// that it has posted zero-copy. To be called after the payload was read, and
  /// before `pop`. If it returns false, the packet and all later ones are lost:
  /// `front` returns null, and `closed` says that the lane has ended.
  virtual bool is_intact() { return true; }

  /// Releases the front packet. @pre the payload was viewed, or `fetch`
  /// returned true.
  virtual void pop() = 0;

  // -- waiting ----------------------------------------------------------------

  /// Prepares a wait: appends the descriptors that `poll` has to watch for an
  /// event of this lane. The wait ends at one of these events:
  /// - a packet, if `front` returned null;
  /// - more bytes, if `fetch` returned false;
  /// - space, if `reserve` returned an empty buffer or `post` returned false;
  /// - completion, if `flush` returned false;
  /// - the lane's end, if `closed` has not yet reported it.
  /// @returns false if such an event has occurred already.
  virtual bool arm(std::vector<pollfd>& watched) = 0;

  /// Ends a wait. The caller calls it after each `arm`, also if `arm` returned
  /// false. Only one thread of a process at a time may wait on lanes.
  virtual void disarm() = 0;

  struct closed_state {
    close_reason cause = close_reason::closed;
    std::string reason;
  };
  /// Returns why the lane has ended; none if it has not. Packets that arrived
  /// before the end can still be read. So the caller calls `front` again before
  /// it considers packets lost.
  virtual const std::optional<closed_state>& closed() = 0;
};

/// Waits until one of the lanes has an event, or the timeout has elapsed.
/// @param watched scratch space, which the caller keeps to avoid allocations in
///                later calls.
/// @param wake_descriptor descriptor that also ends the wait when it is
///                        readable. -1: none.
/// @returns true if a lane has an event or the descriptor is readable.
bool wait_any(std::span<lane* const> lanes, std::chrono::nanoseconds timeout,
              std::vector<pollfd>& watched, int wake_descriptor = -1);

} // namespace troupe::net
