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

/// An authenticated connection for control messages between two processes. It
/// multiplexes channels over one stream, sends heartbeats and detects missing
/// ones. Safe to use from any thread.
class connection {
public:
  virtual ~connection() = default;

  /// Opens one end of a channel; the other side opens the same number. Frames
  /// that arrive before that are kept, within the channel's credits. A channel
  /// number is opened once, until the channel has ended.
  virtual std::shared_ptr<channel> open(std::uint32_t channel) = 0;

  /// The hello of the process at the other end.
  virtual const hello& peer() const = 0;

  /// Time since the last byte from the peer; heartbeats count.
  virtual std::chrono::milliseconds silence() const = 0;

  /// `fn` is called once, on the endpoint's thread, when the connection has
  /// ended; immediately if it has ended already. The listeners of all its
  /// channels get the same reason.
  virtual void
  on_closed(std::function<void(close_reason, const std::string&)> fn) = 0;

  /// Accepts no more frames, sends the posted ones and a `goaway`, and ends.
  /// Ends after the endpoint's handshake timeout at the latest.
  virtual void close(const std::string& reason) = 0;
};

} // namespace troupe::net
