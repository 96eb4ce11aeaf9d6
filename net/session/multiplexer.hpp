#pragma once

#include "troupe/net/codec/frame_decoder.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/net/session/write_queue.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::net {

/// Kinds of control frames: frames on channel 0, whose tag is the kind. The
/// numbers are a wire format: append, never reuse.
enum class control_frame : std::uint64_t {
  heartbeat = 1,
  credit = 2, ///< Returns credits of consumed frames.
  close = 3,  ///< Last frame of a channel in one direction.
  /// Reply to `close`; last frame of the channel in the other direction.
  close_ack = 4,
  goaway = 5, ///< Last frame of the connection.
};

/// Maximum number of frames of one priority on one channel that are not yet
/// credited.
constexpr std::size_t credits_of(priority x) {
  constexpr std::size_t control = 256, bulk = 16;
  return x == priority::control ? control : bulk;
}

/// Multiplexes the channels of a connection. A pure state machine: bytes in,
/// bytes out, no sockets, no threads and no clock.
///
///   messages frames of channels; on channel 0 heartbeat, credit, close, ...
///   on frame      counts against the channel's credits; becomes an event, or
///                 is buffered until the channel is opened
///   on close      the channel has ended; replies `close_ack`
///   on goaway     the connection has ended
///   cost     a credit frame for every quarter of a channel's credits
///   faults   more frames than credits, too many buffered bytes for channels
///            that are not open, a peer that keeps sending but does not read
///            the replies, a malformed frame -> protocol error
class multiplexer {
public:
  /// Maximum number of bytes that are buffered for channels that this side has
  /// not opened: payloads, and a constant for each channel and each event.
  /// There may be many such channels: a peer that is ahead uses one for each
  /// replica of this process.
  static constexpr std::size_t max_buffered_bytes = std::size_t{16} << 20;
  static constexpr std::size_t bytes_per_channel = 256, bytes_per_event = 256;
  /// Maximum number of bytes of one priority that wait to be written; beyond it
  /// no frames are accepted.
  static constexpr std::size_t max_queued_bytes = std::size_t{4} << 20;
  /// Bytes of replies (credits) that may wait in addition.
  static constexpr std::size_t max_queued_reply_bytes = std::size_t{64} << 10;

  /// A received frame of a channel. Without a frame: the end of the channel.
  struct event {
    std::uint32_t channel = 0;
    std::optional<frame> received;
    std::string reason{}; ///< Reason of the end, for people.
    close_reason cause = close_reason::closed;
  };
  struct closed_state {
    close_reason cause = close_reason::closed;
    std::string reason;
    /// The peer announced it by a `goaway`, so no warning is logged.
    bool announced = false;
  };

  explicit multiplexer(const frame_limits& limits)
    : limits_{limits}, decoder_{limits} {}

  /// Opens a channel.
  /// @returns the events that were buffered before.
  /// @errors throws std::logic_error for channel 0, and for a channel that is
  ///         open.
  std::vector<event> open(std::uint32_t channel);

  /// Sends a frame.
  /// @returns false if it was not accepted: no credits, too many bytes wait, or
  ///          the channel or connection is closing.
  /// @errors throws std::logic_error for a payload beyond the limits.
  bool post(std::uint32_t channel, frame&& outgoing);
  void consumed(std::uint32_t channel, priority state);
  /// Closes a channel: it accepts no more frames; its end comes as an event.
  void close(std::uint32_t channel, const std::string& reason);

  void send_heartbeat();
  /// Starts the orderly close of the connection: no channel accepts more
  /// frames.
  void send_goaway(const std::string& reason);

  /// Processes received bytes and appends their events.
  /// @returns why the connection ended by these bytes; none if it did not.
  std::optional<closed_state> receive(std::span<const std::byte> bytes,
                                      std::vector<event>& events);
  /// Called when the stream has ended.
  /// @returns the error if the stream ended within a frame.
  std::optional<decode_error> finish() const { return decoder_.finish(); }

  write_queue& output() { return output_; }
  const frame_limits& limits() const { return limits_; }

private:
  struct channel_state {
    bool opened = false;
    /// Reason, once this side has sent `close`.
    std::optional<std::string> closing;
    std::size_t sent[2] = {0, 0};     ///< Not yet credited, by priority.
    std::size_t received[2] = {0, 0}; ///< Received and not yet credited.
    std::size_t consumed[2] = {0, 0}; ///< Consumed, not yet credited.
    std::vector<event> buffered;
    std::size_t buffered_bytes = 0; ///< Bytes of this channel.
  };
  using result = std::optional<closed_state>;

  result on_frame(frame&& incoming, std::vector<event>& events);
  result on_control_frame(const frame& incoming, std::vector<event>& events);
  result on_credit(const frame& incoming);
  result on_close(const frame& incoming, std::vector<event>& events);
  result on_close_ack(const frame& incoming, std::vector<event>& events);
  /// Returns the channel, which is created if it does not exist.
  channel_state& find_or_create(std::uint32_t number);
  /// Buffers an event of a channel that is not open.
  /// @returns a protocol error if this exceeds the limit of buffered bytes.
  result buffer_event(channel_state& target, event&& item);
  void send_control(control_frame kind, std::vector<std::byte> payload = {},
                    priority frame_priority = priority::control);

  frame_limits limits_;
  frame_decoder decoder_;
  write_queue output_;
  std::map<std::uint32_t, channel_state> channels_;
  std::size_t buffered_bytes_ = 0;
  bool closing_ = false;
};

} // namespace troupe::net
