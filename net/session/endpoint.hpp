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
  std::chrono::milliseconds heartbeat{100};
  /// Time without a byte from the peer after which a connection is closed as
  /// timed out.
  std::chrono::milliseconds suspect{1000};
  /// Timeout of a handshake, and of the orderly close of a connection.
  std::chrono::milliseconds patience{5000};
  /// Maximum number of concurrent handshakes; one more evicts the oldest.
  std::size_t half_open = 256;
  frame_limits limits{};
  /// Receives a line for each connection that was rejected or closed.
  log_function log{};
  /// Hint for people, appended to the error when the address is in use.
  std::string if_in_use = "use another port, or 0 for a free one";
};

/// An authenticated connection: multiplexed if its purpose carries frames
/// (`carries_frames`), else the bare stream.
using arrived =
  std::variant<std::shared_ptr<connection>, std::unique_ptr<stream>>;

/// The network endpoint of a process: listens, dials and authenticates. One
/// thread of its own does all the waiting; calls never block.
class endpoint {
public:
  /// @errors throws `std::invalid_argument` for an address beyond loopback
  ///         without credentials, std::runtime_error when it cannot listen.
  explicit endpoint(const endpoint_options& options);

  /// Closes all connections in order, within the handshake timeout. No callback
  /// runs after it returns. @pre not called on its own thread.
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  /// Address that others dial. @pre it listens.
  const address& reachable_at() const;

  /// True if all connections use TLS.
  bool speaks_tls() const;

  /// Sets the handler of incoming connections: `authorize` accepts or rejects,
  /// `accepted` takes ownership. `abandoned` is called if the peer disconnects
  /// after it was authorized but before the response was sent. Called on the
  /// endpoint's thread; must not block. Dialers wait until a handler is set.
  void on_dialed(std::function<verdict(const hello&)> decide,
                 std::function<void(const hello&, arrived&&)> take,
                 std::function<void(const hello&)> gone = {});

  struct dialed {
    std::optional<arrived> it; ///< None: the dial failed, see `reason`.
    /// `timed_out` if the peer did not respond before the deadline.
    ending how = ending::dead;
    bool refused = false; ///< The other side rejected the hello.
    std::string why;      ///< Reason of a failure; begins with the address.
    hello peer;           ///< Hello of the other side.
    std::vector<std::byte> note; ///< Payload of the hello response.
  };
  /// Connects to a peer and retries until the timeout; a rejection ends it at
  /// once. Calls the completion function once, on the endpoint's thread.
  void dial(const address& where, const hello& who,
            std::chrono::milliseconds patience,
            std::function<void(dialed&&)> then);

  /// Counts the connections that were closed because the peer did not
  /// authenticate.
  struct strangers {
    std::size_t count = 0;
    /// Address of the last one, and why it was closed.
    std::string last;
  };
  strangers turned_away() const;

  /// CPU time that the endpoint's thread has used.
  std::chrono::microseconds cpu_time() const;

private:
  struct impl;
  std::shared_ptr<impl> impl_;
};

} // namespace troupe::net
