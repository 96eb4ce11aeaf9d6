#pragma once

#include "troupe/net/base/address.hpp"
#include "troupe/net/base/log_function.hpp"
#include "troupe/net/io/stream.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/net/session/connection_options.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <variant>

namespace troupe::net {

struct endpoint_options {
  /// Address at which the endpoint listens. Port 0: any free port. None: the
  /// endpoint does not listen, and only dials.
  std::optional<address> listen{};
  /// The endpoint listens at the first free port from the port of `listen` to
  /// this port. Zero: only the port of `listen`.
  std::uint16_t last_port = 0;
  /// Address that peers dial. None: the address at which the endpoint listens.
  std::optional<address> advertised{};
  connection_options connection{};
  /// Maximum number of concurrent handshakes of accepted connections. A further
  /// connection evicts the oldest handshake.
  std::size_t max_handshakes = 256;
  frame_limits limits{};
  /// Receives a sentence per connection that is rejected or closed, and
  /// warnings.
  log_function log{};
  /// Remedy that is appended to the error if the address is in use.
  std::string address_in_use_hint = "use another port, or 0 for a free one";
};

/// An authenticated connection. If its purpose carries frames
/// (`carries_frames`), it is a multiplexed `connection`, else the stream
/// itself.
using accepted_connection =
  std::variant<std::shared_ptr<connection>, std::unique_ptr<stream>>;

/// The network endpoint of a process. It accepts, dials and authenticates
/// connections. It has one thread, which waits for all connections. Only its
/// constructor and destructor may block.
class endpoint {
public:
  /// @errors throws std::invalid_argument for invalid options, such as an
  ///         address that is not loopback without credentials. Throws
  ///         std::runtime_error if it cannot listen.
  explicit endpoint(const endpoint_options& options);

  /// Starts the close of all connections, and waits until they have ended, at
  /// most the handshake timeout. No callback runs after it has returned. @pre
  /// not called on the endpoint's thread.
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  /// Returns the address that peers dial. @pre the endpoint listens.
  const address& advertised_address() const;

  /// True if all connections use TLS.
  bool uses_tls() const;

  /// Sets the handler of incoming connections. `authorize` accepts or rejects a
  /// hello, and `accepted` receives the connection, unless the handshake ends
  /// before the response is sent. These functions are called on the endpoint's
  /// thread and must not block. Until a handler is set, dialing peers wait.
  void serve(std::function<hello_response(const hello&)> authorize,
             std::function<void(const hello&, accepted_connection&&)> accepted);

  struct dial_result {
    /// None: the dial failed, and `reason` says why.
    std::optional<accepted_connection> connection;
    /// Cause of a failure. `timed_out`: the peer's host did not respond before
    /// the deadline.
    close_reason cause = close_reason::closed;
    /// True if the peer rejected the hello, or the secrets differ.
    bool rejected = false;
    /// True if another attempt would fail too: the peer requires other
    /// credentials, for example. False after a rejection, as only its service
    /// knows.
    bool permanent = false;
    /// Text that says why the dial failed. It begins with the dialed address.
    std::string reason;
    hello peer; ///< Hello of the peer. Empty: the peer sent none.
    std::vector<std::byte> payload; ///< Payload of the peer's hello response.
  };
  /// Connects to a peer. It retries until the timeout has elapsed, but not
  /// after a rejection, nor if the secrets differ. When the dial has succeeded
  /// or failed, it calls `on_done` once, on the endpoint's thread.
  void dial(const address& peer_address, const hello& own_hello,
            std::chrono::milliseconds timeout,
            std::function<void(dial_result&&)> on_done);

  /// Connects to a peer like `dial`, but tries each address of its host only
  /// once. For callers that decide themselves when to try again.
  void dial_once(const address& peer_address, const hello& own_hello,
                 std::chrono::milliseconds timeout,
                 std::function<void(dial_result&&)> on_done);

  /// Incoming connections that were closed because the peer did not
  /// authenticate.
  struct rejected_peers {
    std::size_t count = 0;
    /// Address of the last peer that did not authenticate, and why its
    /// connection was closed.
    std::string last;
  };
  rejected_peers rejections() const;

private:
  struct impl;

  void post_dial(const address& peer_address, const hello& own_hello,
                 std::chrono::milliseconds timeout, bool retries,
                 std::function<void(dial_result&&)> on_done);

  std::shared_ptr<impl> impl_;
};

} // namespace troupe::net
