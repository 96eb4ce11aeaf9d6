#pragma once

#include "troupe/net/base/close_reason.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <vector>

namespace troupe::net {

/// Size of a packet's header in bytes. A lane does not interpret it.
inline constexpr std::size_t packet_header_size = 64;
/// Maximum size of a packet's payload in bytes.
inline constexpr std::size_t max_packet_bytes = std::size_t{256} * 1024;

using packet_header = std::array<std::byte, packet_header_size>;

/// Carries packets between two processes in both directions, each direction in
/// order. A packet is a header and at most `max_packet_bytes` of payload. A
/// lane is bounded, never blocks, and has no thread: it makes progress only in
/// calls of its functions. Only one thread at a time may call them.
class lane {
public:
  virtual ~lane() = default;

  // -- sending ----------------------------------------------------------------

  /// Buffer for the payload of the next packet: 64-byte aligned,
  /// `max_packet_bytes` long. Empty if there is no space now. Stays the same
  /// until `post`.
  virtual std::span<std::byte> reserve() = 0;

  /// Sends a header and the first `bytes` of the reserved buffer. @pre
  /// `reserve` was not empty.
  virtual void post(const packet_header& header, std::size_t bytes) = 0;

  /// Sends a copy of the bytes: the caller may change them when it returns.
  /// @returns false if there is no space now, or the lane has ended.
  virtual bool post(const packet_header& header,
                    std::span<const std::byte> bytes) = 0;

  /// Sends the bytes without a copy if the lane can. The caller must not change
  /// them until `flush` returns true.
  /// @returns false if there is no space now, or the lane has ended.
  virtual bool post_zero_copy(const packet_header& header,
                              std::span<const std::byte> bytes) {
    return post(header, bytes);
  }

  /// Continues to send what was posted.
  /// @returns true if all of it has left this process and the peer has released
  ///          all zero-copy payloads.
  virtual bool flush() = 0;

  // -- receiving --------------------------------------------------------------

  /// Header of the oldest packet that was not popped, as a copy that the peer
  /// cannot change. Null: none has arrived.
  virtual const packet_header* front() = 0;

  /// Payload size of the front packet in bytes. @pre `front` was not null.
  virtual std::size_t front_bytes() const = 0;

  /// Payload of the front packet in place, valid until `pop`. Empty: the
  /// payload must be read by `fetch`.
  virtual std::span<const std::byte> view() = 0;

  /// Copies or reads the payload of the front packet. While it returns false,
  /// the caller repeats the call with a buffer of at least that size. It passes
  /// the same buffer again, unless it discards the payload: bytes that were
  /// copied already are not moved to another buffer.
  /// @returns true if all bytes have arrived and are valid.
  virtual bool fetch(std::span<std::byte> into) = 0;

  /// Releases the front packet. @pre it was viewed, or fetched as a whole.
  virtual void pop() = 0;

  // -- waiting ----------------------------------------------------------------

  /// Prepares a wait: appends the descriptors that `poll` has to watch for an
  /// event of this lane. A lane has these events:
  /// - a packet, if `front` was null;
  /// - more bytes, if `fetch` was false;
  /// - space, if `reserve` was empty or a post was false;
  /// - completion, if `flush` was false;
  /// - the lane's end, until `closed` has reported it.
  /// @returns false if there is an event already.
  virtual bool arm(std::vector<pollfd>& watched) = 0;

  /// Called after each `arm`, whatever it returned. One thread of a process at
  /// a time waits on lanes.
  virtual void disarm() = 0;

  struct closed_state {
    close_reason cause = close_reason::closed;
    std::string reason;
  };
  /// Set once the lane has ended. Packets that arrived before can still be
  /// read: call `front` again before packets are considered missing.
  virtual const std::optional<closed_state>& closed() = 0;
};

/// Waits until one of the lanes has an event, or the timeout has elapsed.
/// @param watched scratch space; the caller keeps it to avoid allocations in
///                later calls.
/// @returns true if a lane has an event.
bool wait_any(std::span<lane* const> lanes, std::chrono::nanoseconds timeout,
              std::vector<pollfd>& watched);

} // namespace troupe::net
