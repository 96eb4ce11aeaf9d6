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

/// What a connection says for itself, on channel 0, as a fact's tag. The
/// numbers are a wire format: append, never reuse.
enum class service : std::uint64_t {
  heartbeat = 1,
  credit = 2,  ///< So many frames were dealt with.
  close = 3,   ///< The last of a channel, in this direction.
  closed = 4,  ///< Answers it; the last in the other.
  goodbye = 5, ///< The last of the connection.
};

/// Frames of one priority that may be on their way on one channel.
constexpr std::size_t credits_of(priority x) {
  constexpr std::size_t control = 256, bulk = 16;
  return x == priority::control ? control : bulk;
}

/// The links of a connection as a machine: bytes in, bytes out, no sockets, no
/// threads and no clock.
///
///   says     frames of channels; of channel 0: heartbeat, credit, close, ...
///   on frame      counts against the channel's credits; heard, or kept for
///                 a channel that nobody opened yet
///   on close      the channel has ended; answers `closed`
///   on goodbye    all has ended
///   costs    a credit frame for every quarter of a channel's credits
///   if       more frames than credits, too many bytes kept for channels that
///            nobody opened, frames on and on from who does not read the
///            answers, anything malformed -> broken
class switchboard {
public:
  /// Bytes kept for channels that the other side uses and this one has not
  /// opened: payloads, and what each channel and each event takes by itself.
  /// There may be many such channels: a peer that is ahead uses one for each
  /// replica of this process.
  static constexpr std::size_t most_kept_bytes = std::size_t{16} << 20;
  static constexpr std::size_t bytes_per_channel = 256, bytes_per_event = 256;
  /// Bytes that wait to be written before no more frames are taken.
  static constexpr std::size_t most_waiting_bytes = std::size_t{4} << 20;
  /// Bytes of answers (credits) that wait beside them.
  static constexpr std::size_t most_answer_bytes = std::size_t{64} << 10;

  /// A frame of a channel, or its end if there is none.
  struct event {
    std::uint32_t channel = 0;
    std::optional<frame> heard;
    std::string ended{}; ///< Why.
    ending how = ending::dead;
  };
  struct end {
    ending how = ending::dead;
    std::string why;
    bool said = false; ///< By a goodbye: nobody need be told.
  };

  explicit switchboard(const frame_limits& limits)
    : limits_{limits}, decoder_{limits} {}

  /// @returns what came before it was opened.
  /// @errors throws std::logic_error for channel 0, and one that is open.
  std::vector<event> open(std::uint32_t channel);

  /// @returns whether it was taken.
  /// @errors throws std::logic_error for a payload beyond the limits.
  bool post(std::uint32_t channel, frame&& x);
  void consumed(std::uint32_t channel, priority x);
  /// The channel takes no more; its end comes as an event.
  void close(std::uint32_t channel, const std::string& why);

  void beat();
  /// Takes no more, of any channel.
  void say_goodbye(const std::string& why);

  /// @returns how the connection ended by these bytes, if it did.
  std::optional<end> take(std::span<const std::byte> bytes,
                          std::vector<event>& events);
  /// The stream has ended. @returns what is wrong if that cuts a frame short.
  std::optional<malformed> finish() const { return decoder_.finish(); }

  outbox& out() { return out_; }
  const frame_limits& limits() const { return limits_; }

private:
  struct channel {
    bool opened = false;
    std::optional<std::string> closing; ///< Said `close`: why.
    std::size_t sent[2] = {0, 0};       ///< By priority, and not credited.
    std::size_t taken[2] = {0, 0};      ///< And not credited by us.
    std::size_t owed[2] = {0, 0};       ///< Of those taken: dealt with.
    std::vector<event> kept;
    std::size_t kept_bytes = 0; ///< Its share of `kept_bytes_`.
  };
  using result = std::optional<end>;

  result on_frame(frame&& x, std::vector<event>& events);
  result on_service(const frame& x, std::vector<event>& events);
  result on_credit(const frame& x);
  result on_close(const frame& x, std::vector<event>& events);
  result on_closed(const frame& x, std::vector<event>& events);
  /// The channel, made if there is none.
  channel& at(std::uint32_t number);
  /// Keeps an event of a channel that is not opened.
  /// @returns `broken` when this exceeds `most_kept_bytes`.
  result keep(channel& to, event&& x);
  void speak(service what, std::vector<std::byte> payload = {},
             priority how = priority::control);

  frame_limits limits_;
  frame_decoder decoder_;
  outbox out_;
  std::map<std::uint32_t, channel> channels_;
  std::size_t kept_bytes_ = 0;
  bool parting_ = false;
};

} // namespace troupe::net
