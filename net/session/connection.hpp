#pragma once

#include "troupe/net/session/channel.hpp"
#include "troupe/net/session/hello.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::net {

/// An authenticated connection between two processes for control messages. It
/// multiplexes channels over one stream, sends heartbeats, and ends if the
/// peer's heartbeats are missing. Any thread may call its functions.
class connection {
public:
  virtual ~connection() = default;

  /// Opens this side's end of a channel. The peer opens the other end by the
  /// same number. Frames that arrive before this call are kept, within the
  /// channel's credits. A number can be opened again only after its channel has
  /// ended.
  virtual std::shared_ptr<channel> open(std::uint32_t channel) = 0;

  /// Returns the hello of the peer.
  virtual const hello& peer() const = 0;

  /// Returns the time since the last byte from the peer, including bytes of
  /// heartbeats.
  virtual std::chrono::milliseconds silence() const = 0;

  /// Calls `fn` once when the connection has ended, on the endpoint's thread.
  /// If the connection has ended already, `on_closed` calls `fn` before it
  /// returns. The channels' listeners get the reason that `fn` gets.
  virtual void
  on_closed(std::function<void(close_reason, const std::string&)> fn) = 0;

  /// True if the connection has ended because this process or the peer has
  /// called `close`. False: it was cut, or the peer may have ended.
  virtual bool ended_by_close() const { return true; }

  /// Starts the close of the connection. No more frames can be posted. The
  /// connection sends the frames that were posted and a `goaway`. It ends when
  /// the peer closes, at the latest after the endpoint's handshake timeout.
  virtual void close(const std::string& reason) = 0;
};

} // namespace troupe::net
