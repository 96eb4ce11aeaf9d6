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

/// An authenticated connection for control messages between two processes:
/// links of several roles, by channel, over one stream; it sends heartbeats and
/// listens for them. Safe to use from any thread.
class connection {
public:
  virtual ~connection() = default;

  /// One end of a link; the other side opens the same channel. Frames that come
  /// before it was opened are kept, within the link's credits. A channel is
  /// opened once.
  virtual std::shared_ptr<link> open(std::uint32_t channel) = 0;

  /// Who is at the other end.
  virtual const hello& peer() const = 0;

  /// Since something was heard of the peer, its heartbeats included.
  virtual std::chrono::milliseconds silence() const = 0;

  /// Called once, on the endpoint's thread, when the connection has ended; at
  /// once if it has. All its links hear the same.
  virtual void on_end(std::function<void(ending, const std::string&)> fn) = 0;

  /// Takes no more; sends what was posted, says goodbye, and ends. Bounded by
  /// the endpoint's patience.
  virtual void close(const std::string& why) = 0;
};

} // namespace troupe::net
