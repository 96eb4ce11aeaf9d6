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
  /// Where to listen; port 0: one that is free. None: dials only.
  std::optional<address> listen{};
  std::uint16_t last_port = 0;            ///< Above listen's: tries that range.
  std::optional<address> advertised{};    ///< What others are told to dial.
  troupe::net::credentials credentials{}; ///< None: loopback only.
  std::chrono::milliseconds heartbeat{100};
  /// Longest silence before a connection is given up as `silent`.
  std::chrono::milliseconds suspect{1000};
  /// Longest that a handshake or a farewell may take.
  std::chrono::milliseconds patience{5000};
  /// Connections that may be in their handshake at once; one more pushes out
  /// the oldest.
  std::size_t half_open = 256;
  frame_limits limits{};
  /// Hears why connections were refused or closed.
  log_function log{};
  /// What would do, for people, if what it listens at is in use.
  std::string if_in_use = "another port will do, or 0 for one that is free";
};

/// What comes of a connection once it is authenticated: those that speak frames
/// (by `speaks_frames` of the purpose), all others as they are.
using arrived =
  std::variant<std::shared_ptr<connection>, std::unique_ptr<stream>>;

/// A process's door: listens, dials, authenticates, with one thread of its own
/// for all that is waited for. It never blocks its caller.
class endpoint {
public:
  /// @errors throws `std::invalid_argument` for an address beyond loopback
  ///         without credentials, std::runtime_error when it cannot listen.
  explicit endpoint(const endpoint_options& options);

  /// Closes all connections, says goodbye within the patience. Calls nobody
  /// any more when it returns. @pre not on its own thread.
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  /// What others dial. @pre it listens.
  const address& reachable_at() const;

  /// Whether all that is said here is under TLS.
  bool speaks_tls() const;

  /// Who decides on those that dial this process, and who gets them, or hears
  /// that one is `gone` who was taken, but did not hear so. Called on the
  /// endpoint's thread; must not block. Until then they wait.
  void on_dialed(std::function<verdict(const hello&)> decide,
                 std::function<void(const hello&, arrived&&)> take,
                 std::function<void(const hello&)> gone = {});

  struct dialed {
    std::optional<arrived> it;   ///< None: `why` it failed.
    ending how = ending::dead;   ///< `silent` if nobody answered in time.
    bool refused = false;        ///< By the other side's verdict.
    std::string why;             ///< Begins with the address.
    hello peer;                  ///< What the other side says of itself.
    std::vector<std::byte> note; ///< The verdict's.
  };
  /// Tries until the deadline; a refusal ends it at once. Calls `then` once, on
  /// the endpoint's thread.
  void dial(const address& where, const hello& who,
            std::chrono::milliseconds patience,
            std::function<void(dialed&&)> then);

  /// Connections that were closed as nobody there proved who he is.
  struct strangers {
    std::size_t count = 0;
    std::string last; ///< Whence the last one came, and why it was closed.
  };
  strangers turned_away() const;

  /// CPU time that the endpoint's thread has used.
  std::chrono::microseconds cpu_time() const;

private:
  struct impl;
  std::shared_ptr<impl> impl_;
};

} // namespace troupe::net
