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

/// Accepts connections and runs their handshakes, at most `max_handshakes` at a
/// time. After construction its functions are for the loop's thread only.
class acceptor {
public:
  using clock = std::chrono::steady_clock;
  struct settings {
    std::size_t max_handshakes = 256;
    std::chrono::milliseconds handshake_timeout{5000};
    std::string secret{};
    /// Creates a stream over a connected socket, which the stream owns.
    std::function<std::unique_ptr<stream>(int)> wrap;
    std::function<hello_response(const hello&)> authorize;
    std::function<void(const hello&, std::unique_ptr<stream>)> accepted;
    /// Called with the peer's address and the reason. `failed`: the handshake
    /// failed or timed out. `wrong_secret`: the peer has another secret, or
    /// only one side has one. `rejected`: `authorize` rejected the peer, or the
    /// peer uses another handshake version.
    std::function<void(const std::string&, const std::string&)> failed,
      wrong_secret, rejected;
    std::function<void(const std::string&)> warn;
    /// Called if the oldest handshake was ended, because there are more than
    /// `max_handshakes`, or no descriptor is left for a new connection.
    std::function<void()> on_evicted;
  };

  acceptor(io_loop& loop, descriptor listening, settings options);

  /// Starts to accept connections.
  void open();
  /// Ends the handshakes that exceed the handshake timeout.
  void tick(clock::time_point now);

private:
  struct pending_handshake {
    std::string peer_address;
    clock::time_point accepted_at;
    std::unique_ptr<handshaker> active_handshaker;
  };
  /// Handshakes that have not completed, the oldest first.
  using pending_handshakes = std::list<pending_handshake>;

  void on_readable();
  /// Accepts one connection and starts its handshake. Returns true if another
  /// connection may be waiting.
  bool accept_one();
  void start_handshake(descriptor socket, const socket_address& peer_address);
  void on_handshake_done(pending_handshakes::iterator entry);
  void evict_oldest();
  void remove(pending_handshakes::iterator entry);

  io_loop& loop_;
  const descriptor listening_socket_;
  settings settings_;
  pending_handshakes pending_;
  std::optional<descriptor_watcher> watcher_;
  timer retry_timer_;
};

} // namespace troupe::net
