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

/// Accepts connections and runs their handshakes. At most `max_handshakes`
/// handshakes run at a time. All functions except the constructor run on the
/// loop's thread.
class acceptor {
public:
  using clock = std::chrono::steady_clock;
  struct settings {
    std::size_t max_handshakes = 256;
    std::chrono::milliseconds handshake_timeout{5000};
    std::string secret{};
    /// Makes a stream over a connected socket.
    std::function<std::unique_ptr<stream>(int)> wrap;
    std::function<hello_response(const hello&)> authorize;
    std::function<void(const hello&, std::unique_ptr<stream>)> accepted;
    /// The peer was accepted, but disconnected before the response was sent.
    std::function<void(const hello&)> abandoned;
    /// Called with the peer's address and the reason. `failed`: the handshake
    /// failed or timed out. `rejected`: `authorize` rejected the peer, or the
    /// peer uses another handshake version.
    std::function<void(const std::string&, const std::string&)> failed,
      rejected;
    std::function<void(const std::string&)> warn;
    /// A handshake was ended to make room for a newer one, or to free a
    /// descriptor.
    std::function<void()> on_evicted;
  };

  acceptor(io_loop& loop, descriptor listening, settings options);

  /// Starts to accept connections.
  void open();
  /// Ends the handshakes that exceed the handshake timeout.
  void tick(clock::time_point now);

  std::size_t pending_count() const { return pending_.size(); }

private:
  struct pending_handshake {
    std::string peer_address;
    clock::time_point accepted_at;
    std::unique_ptr<handshaker> active_handshaker;
  };
  using pending_handshakes = std::list<pending_handshake>; ///< Oldest first.

  void on_readable();
  /// Returns true if another connection may be waiting.
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
