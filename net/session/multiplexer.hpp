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

/// Kinds of control frames. A control frame is a frame on channel 0 whose tag
/// is its kind. The numbers are a wire format: append new ones, never reuse old
/// ones.
enum class control_frame : std::uint64_t {
  heartbeat = 1,
  credit = 2, ///< Returns the credits of consumed frames to their sender.
  close = 3,  ///< Last frame of a channel in the sender's direction.
  /// Reply to `close`, and the last frame of the channel in the other
  /// direction.
  close_ack = 4,
  goaway = 5, ///< Last frame of the connection in the sender's direction.
};

/// Number of frames of a priority that a side may send on a channel before the
/// peer returns credits.
constexpr std::size_t credits_of(priority x) {
  constexpr std::size_t control = 256, bulk = 16;
  return x == priority::control ? control : bulk;
}

/// Multiplexes the channels of a connection. It is a state machine without
/// sockets, threads and clock: its caller passes received bytes to `receive`,
/// and writes the bytes of `output`.
///
///   messages frames of channels; on channel 0 the control frames
///   on frame      counts against the channel's credits; becomes an event, or
///                 is buffered until this side opens the channel
///   on close      the channel has ended; this side replies `close_ack`
///   on goaway     the connection has ended
///   cost     one credit frame per quarter of a channel's credits
///   faults   the connection ends with a protocol error if the peer sends more
///            frames than it has credits, too many bytes for channels that are
///            not open, or a malformed frame; also if the peer keeps sending
///            but does not read this side's replies
class multiplexer {
public:
  /// Maximum number of bytes that are buffered for all channels that this side
  /// has not opened. A channel counts as `bytes_per_channel` bytes. An event
  /// counts as `bytes_per_event` bytes plus the size of its payload or reason.
  /// There can be many such channels: a peer that starts before this process
  /// may use one channel per replica of this process.
  static constexpr std::size_t max_buffered_bytes = std::size_t{16} << 20;
  static constexpr std::size_t bytes_per_channel = 256, bytes_per_event = 256;
  /// If at least this number of bytes of a priority waits to be written, `post`
  /// accepts no frame of that priority.
  static constexpr std::size_t max_queued_bytes = std::size_t{4} << 20;
  /// Maximum number of bytes of replies, such as credits, that may wait to be
  /// written in addition to posted frames.
  static constexpr std::size_t max_queued_reply_bytes = std::size_t{64} << 10;

  /// Event for the listener of a channel: a received frame, or the end of the
  /// channel if `received` is none.
  struct event {
    std::uint32_t channel = 0;
    std::optional<frame> received;
    std::string reason{}; ///< Text that says why the channel has ended.
    close_reason cause = close_reason::closed;
  };
  struct closed_state {
    close_reason cause = close_reason::closed;
    std::string reason;
    /// True if the peer has sent a `goaway`. No warning is logged then.
    bool announced = false;
  };

  explicit multiplexer(const frame_limits& limits)
    : limits_{limits}, decoder_{limits} {}

  /// Opens this side's end of a channel.
  /// @returns the events of the channel that were buffered until now.
  /// @errors throws std::logic_error for channel 0, and for a channel that is
  ///         open already.
  std::vector<event> open(std::uint32_t channel);

  /// Appends a frame to `output`.
  /// @returns false if the frame was not accepted: the credits are used up, too
  ///          many bytes wait, or the channel or connection is closing.
  /// @errors throws std::logic_error for a payload beyond the limits.
  bool post(std::uint32_t channel, frame&& outgoing);
  /// Returns true if a channel accepts no more frames, because it or the
  /// connection has ended or is closing.
  bool has_ended(std::uint32_t channel) const;
  void consumed(std::uint32_t channel, priority state);
  /// Starts the close of a channel, which then accepts no more frames. When the
  /// peer has replied, `receive` returns the end as an event.
  void close(std::uint32_t channel, const std::string& reason);

  void send_heartbeat();
  /// Starts the close of the connection. No channel accepts more frames.
  void send_goaway(const std::string& reason);

  /// Processes received bytes, and appends the resulting events to `events`.
  /// @returns why the connection has ended. None: it has not ended.
  std::optional<closed_state> receive(std::span<const std::byte> bytes,
                                      std::vector<event>& events);
  /// To be called when the stream has ended.
  /// @returns an error if the stream ended within a frame.
  std::optional<decode_error> finish() const { return decoder_.finish(); }

  write_queue& output() { return output_; }
  const frame_limits& limits() const { return limits_; }

private:
  struct channel_state {
    bool opened = false;
    /// Reason of the close. None: this side has not sent `close`.
    std::optional<std::string> closing;
    /// Frames sent for which the peer has not returned credits, per priority.
    std::size_t sent[2] = {0, 0};
    /// Frames received for which no credits were returned, per priority.
    std::size_t received[2] = {0, 0};
    /// Frames counted in `received` that the listener has consumed, per
    /// priority.
    std::size_t consumed[2] = {0, 0};
    std::vector<event> buffered;
    /// Part of the multiplexer's `buffered_bytes_` that this channel uses.
    std::size_t buffered_bytes = 0;
  };
  using result = std::optional<closed_state>;

  result on_frame(frame&& incoming, std::vector<event>& events);
  result on_control_frame(const frame& incoming, std::vector<event>& events);
  result on_credit(const frame& incoming);
  result on_close(const frame& incoming, std::vector<event>& events);
  result on_close_ack(const frame& incoming, std::vector<event>& events);
  /// Returns the state of a channel, and creates the state if there is none.
  channel_state& find_or_create(std::uint32_t number);
  /// Buffers an event of a channel that this side has not opened.
  /// @returns a protocol error if more than `max_buffered_bytes` are then
  ///          buffered.
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
