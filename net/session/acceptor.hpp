#pragma once

#include "troupe/net/io/socket_address.hpp"
#include "troupe/net/session/handshaker.hpp"

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

namespace troupe::net {

/// Accepts connections and runs their handshakes. At most `half_open`
/// handshakes run at a time. All functions except the constructor run on the
/// loop's thread.
class door {
public:
  using clock = std::chrono::steady_clock;
  struct settings {
    std::size_t half_open = 256;
    std::chrono::milliseconds patience{5000};
    std::string secret{};
    /// Makes a stream over a connected socket.
    std::function<std::unique_ptr<stream>(int)> wrap;
    std::function<verdict(const hello&)> decide;
    std::function<void(const hello&, std::unique_ptr<stream>)> take;
    /// The peer was accepted, but disconnected before the response was sent.
    std::function<void(const hello&)> gone;
    /// Called with the peer's address and the reason. `failed`: the handshake
    /// failed or timed out. `rejected`: `authorize` rejected the peer, or the
    /// peer uses another handshake version.
    std::function<void(const std::string&, const std::string&)> failed, refused;
    std::function<void(const std::string&)> warn;
    /// A handshake was ended to make room for a newer one, or to free a
    /// descriptor.
    std::function<void()> pushed_out;
  };

  door(io_loop& by, descriptor listening, settings how);

  /// Starts to accept connections.
  void open();
  /// Ends the handshakes that exceed the handshake timeout.
  void tick(clock::time_point now);

  std::size_t half_open() const { return guests_.size(); }

private:
  struct guest {
    std::string from;
    clock::time_point since;
    std::unique_ptr<meeting> talk;
  };
  using guests = std::list<guest>; ///< Oldest first.

  void on_knock();
  /// @returns true if another connection may be waiting.
  bool accept_one();
  bool is_full(int error);
  void receive(descriptor socket, const place& from);
  void on_met(guests::iterator who);
  void push_out_oldest();
  void forget(guests::iterator who);

  io_loop& loop_;
  const descriptor listening_;
  settings how_;
  guests guests_;
  std::optional<watch> watch_;
  alarm pause_;
};

} // namespace troupe::net
