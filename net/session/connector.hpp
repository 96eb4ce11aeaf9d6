#pragma once

#include "troupe/net/io/socket_address.hpp"
#include "troupe/net/session/endpoint.hpp"
#include "troupe/net/session/handshaker.hpp"

#include <chrono>
#include <functional>
#include <memory>

namespace troupe::net {

/// Carries out one `endpoint::dial`: resolves the host, connects, and runs the
/// handshake. It retries until the peer accepts or rejects, the secrets turn
/// out to differ, or the deadline has passed, unless the request forbids it.
/// For the loop's thread only.
class connector : public std::enable_shared_from_this<connector> {
public:
  struct request {
    address peer_address;
    hello own_hello;
    std::string secret;
    std::chrono::steady_clock::time_point deadline;
    /// Timeout of one attempt to connect and complete the handshake.
    std::chrono::milliseconds handshake_timeout;
    bool loopback_only = false;
    /// False: each address of the host is tried once.
    bool retries = true;
    /// Creates a stream over a connected socket, which the stream owns.
    std::function<std::unique_ptr<stream>(int)> wrap;
  };
  /// Called once with the result. The stream is null if the peer did not accept
  /// the handshake.
  using done_fn =
    std::function<void(endpoint::dial_result&&, std::unique_ptr<stream>)>;

  connector(std::shared_ptr<io_loop> loop, request options, done_fn on_done);

  void start();

  /// Ends the dial as failed, and calls the completion function before it
  /// returns.
  void cancel(const std::string& reason);

private:
  using clock = std::chrono::steady_clock;

  void resolve_host();
  void on_resolved(resolved_addresses&& resolved);
  void try_next();
  void on_connected();
  void start_handshake();
  void on_handshake_done();
  void attempt_failed(std::string reason);
  void retry();
  void on_deadline();
  void give_up(const std::string& text);
  void finish(endpoint::dial_result&& result,
              std::unique_ptr<stream> connected_stream = {});
  void fail(const std::string& reason);
  std::string with_address(const std::string& reason) const;

  std::shared_ptr<io_loop> loop_;
  request request_;
  done_fn on_done_;
  resolved_addresses addresses_;
  std::size_t next_address_ = 0; ///< Index of the next address to try.
  descriptor socket_;
  std::unique_ptr<descriptor_watcher> watcher_;
  std::unique_ptr<handshaker> handshaker_;
  timer deadline_timer_, retry_timer_, attempt_timer_;
  std::chrono::milliseconds backoff_{10};
  std::string last_problem_; ///< Reason why the last attempt failed.
  /// Reason why the last attempt that reached the handshake failed.
  std::string handshake_problem_;
  /// True if the peer's host has responded to an attempt: the host refused or
  /// reset the connection, or a handshake ended.
  bool peer_responded_ = false;
};

} // namespace troupe::net
