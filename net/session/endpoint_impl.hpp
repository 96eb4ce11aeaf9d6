#pragma once

#include "troupe/net/base/log_rate_limiter.hpp"
#include "troupe/net/base/notification.hpp"
#include "troupe/net/security/tls.hpp"
#include "troupe/net/session/acceptor.hpp"
#include "troupe/net/session/connector.hpp"
#include "troupe/net/session/endpoint.hpp"
#include "troupe/net/session/stream_connection.hpp"

#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace troupe::net {

/// The endpoint's state. Only the loop's thread uses its functions and members,
/// except where a comment says otherwise.
struct endpoint::impl {
  explicit impl(const endpoint_options& initial_options);

  void listen();
  std::unique_ptr<stream> wrap(int fd, tls::side own_side) const;
  std::chrono::milliseconds tick_interval() const;
  void tick();
  void dial(const address& peer_address, const hello& own_hello,
            std::chrono::steady_clock::time_point deadline, bool retries,
            std::function<void(dial_result&&)> on_done);
  accepted_connection make_connection(const hello& peer,
                                      std::unique_ptr<stream> connected_stream);

  /// Ends pending dials and handshakes, and starts the close of all
  /// connections.
  void shut_down();
  void check_all_closed();

  /// Logs why an incoming connection was closed in its handshake.
  void log_closed(severity level, const std::string& peer_address,
                  const std::string& reason);
  /// Returns `warning` at most once in 10 s, else `info`, so that peers without
  /// the secret cannot crowd other warnings out.
  severity severity_of_wrong_secret();
  /// Adds a peer that did not authenticate to `rejections`.
  void count_rejection(const std::string& peer_address,
                       const std::string& reason);

  const endpoint_options options;    ///< Any thread may read it.
  const credentials own_credentials; ///< Any thread may read it.
  address advertised_address;        ///< Any thread may read it.
  log_rate_limiter log;
  std::optional<tls> certificates;
  std::function<hello_response(const hello&)> authorize;
  std::function<void(const hello&, accepted_connection&&)> accepted;
  /// Any thread may use it.
  std::shared_ptr<io_loop> loop = std::make_shared<io_loop>();
  timer tick_timer;
  std::optional<acceptor> connection_acceptor;
  std::set<std::shared_ptr<connector>> connectors;
  std::vector<std::shared_ptr<stream_connection>> connections;
  bool closing = false;
  std::chrono::steady_clock::time_point next_secret_warning{};

  notification all_closed; ///< Any thread may use it.

  std::mutex lock; // guards `rejections`
  rejected_peers rejections;
};

} // namespace troupe::net
