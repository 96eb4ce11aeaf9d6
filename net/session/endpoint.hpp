#pragma once

#include "troupe/net/base/address.hpp"
#include "troupe/net/base/log_function.hpp"
#include "troupe/net/io/stream.hpp"
#include "troupe/net/security/credentials.hpp"
#include "troupe/net/session/connection.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <variant>

namespace troupe::net {

struct endpoint_options {
  /// Address to listen at. Port 0: any free port. None: this endpoint only
  /// dials.
  std::optional<address> listen{};
  /// Last port of a range that starts at the port of `listen`. Zero: no range.
  std::uint16_t last_port = 0;
  /// Address that others dial. None: the address it listens at.
  std::optional<address> advertised{};
  troupe::net::credentials credentials{}; ///< None: loopback only.
  std::chrono::milliseconds heartbeat_interval{100};
  /// Time without a byte from the peer after which a connection is closed as
  /// timed out.
  std::chrono::milliseconds heartbeat_timeout{1000};
  /// Timeout of a handshake, and of the orderly close of a connection.
  std::chrono::milliseconds handshake_timeout{5000};
  /// Maximum number of concurrent handshakes; one more evicts the oldest.
  std::size_t max_handshakes = 256;
  frame_limits limits{};
  /// Receives a line for each connection that was rejected or closed.
  log_function log{};
  /// Hint for people, appended to the error when the address is in use.
  std::string address_in_use_hint = "use another port, or 0 for a free one";
};

/// An authenticated connection: multiplexed if its purpose carries frames
/// (`carries_frames`), else the bare stream.
using accepted_connection =
  std::variant<std::shared_ptr<connection>, std::unique_ptr<stream>>;

/// The network endpoint of a process: listens, dials and authenticates. One
/// thread of its own does all the waiting; calls never block.
class endpoint {
public:
  /// @errors throws `std::invalid_argument` for an address beyond loopback
  ///         without credentials, std::runtime_error when it cannot listen.
  explicit endpoint(const endpoint_options& options);

  /// Starts the orderly close of all connections and waits for it, at most the
  /// handshake timeout. No callback runs after it returns. @pre not called on
  /// its own thread.
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  /// Address that others dial. @pre it listens.
  const address& advertised_address() const;

  /// True if all connections use TLS.
  bool uses_tls() const;

  /// Sets the handler of incoming connections: `authorize` accepts or rejects,
  /// `accepted` takes ownership. `abandoned` is called if the peer disconnects
  /// after it was authorized but before the response was sent. Called on the
  /// endpoint's thread; must not block. Dialers wait until a handler is set.
  void serve(std::function<hello_response(const hello&)> authorize,
             std::function<void(const hello&, accepted_connection&&)> accepted,
             std::function<void(const hello&)> abandoned = {});

  struct dial_result {
    /// None: the dial failed, see `reason`.
    std::optional<accepted_connection> connection;
    /// `timed_out` if the peer did not respond before the deadline.
    close_reason cause = close_reason::closed;
    bool rejected = false; ///< The other side rejected the hello.
    std::string reason;    ///< Reason of a failure; begins with the address.
    hello peer;            ///< Hello of the other side.
    std::vector<std::byte> payload; ///< Payload of the hello response.
  };
  /// Connects to a peer and retries until the timeout; a rejection ends it at
  /// once. Calls the completion function once, on the endpoint's thread.
  void dial(const address& peer_address, const hello& own_hello,
            std::chrono::milliseconds timeout,
            std::function<void(dial_result&&)> on_done);

  /// Counts the connections that were closed because the peer did not
  /// authenticate.
  struct rejected_peers {
    std::size_t count = 0;
    /// Address of the last one, and why it was closed.
    std::string last;
  };
  rejected_peers rejections() const;

  /// CPU time that the endpoint's thread has used.
  std::chrono::microseconds cpu_time() const;

private:
  struct impl;
  std::shared_ptr<impl> impl_;
};

} // namespace troupe::net
