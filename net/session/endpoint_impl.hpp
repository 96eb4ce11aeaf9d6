#pragma once

#include "troupe/net/base/log_rate_limiter.hpp"
#include "troupe/net/security/tls.hpp"
#include "troupe/net/session/acceptor.hpp"
#include "troupe/net/session/connector.hpp"
#include "troupe/net/session/endpoint.hpp"
#include "troupe/net/session/stream_connection.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace troupe::net {

/// The endpoint's state. Its functions and members are for the loop's thread,
/// unless a comment names another.
struct endpoint::impl {
  explicit impl(const endpoint_options& x);

  void listen();
  std::unique_ptr<stream> wrap(int fd, tls::side at) const;
  std::chrono::milliseconds tick_time() const;
  void tick();
  void dial(const address& where, const hello& who,
            std::chrono::steady_clock::time_point deadline,
            std::function<void(dialed&&)> then);
  arrived arrive(const hello& who, std::unique_ptr<stream> it);

  /// Ends pending dials and handshakes, and starts the orderly close of all
  /// connections.
  void leave();
  void check_left();

  /// Logs why an incoming connection was closed.
  void say_closed(const std::string& from, const std::string& why);

  const endpoint_options options; ///< For any thread.
  address here;                   ///< For any thread.
  log_limiter log;
  std::optional<tls> certificates;
  std::function<verdict(const hello&)> decide;
  std::function<void(const hello&, arrived&&)> take;
  std::function<void(const hello&)> gone;
  /// For any thread.
  std::shared_ptr<io_loop> loop = std::make_shared<io_loop>();
  alarm ticker;
  std::optional<door> entrance;
  std::set<std::shared_ptr<dialing>> dials;
  std::vector<std::shared_ptr<wired_connection>> connections;
  bool leaving = false;

  std::mutex lock; // guards all members below
  std::condition_variable left;
  bool all_left = false;
  strangers away;
};

} // namespace troupe::net
