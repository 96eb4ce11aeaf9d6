#pragma once

#include "troupe/net/io/socket_address.hpp"
#include "troupe/net/session/endpoint.hpp"
#include "troupe/net/session/handshaker.hpp"

#include <chrono>
#include <functional>
#include <memory>

namespace troupe::net {

/// One `dial`: finds the host, connects, meets, and does it again until it is
/// taken, refused, or too late. For the loop's thread.
class dialing : public std::enable_shared_from_this<dialing> {
public:
  struct order {
    address where;
    hello who;
    std::string secret;
    std::chrono::steady_clock::time_point deadline;
    std::chrono::milliseconds patience; ///< Of one handshake.
    bool loopback_only = false;
    /// A stream over a connected socket.
    std::function<std::unique_ptr<stream>(int)> wrap;
  };
  /// `peer` has the stream if it is taken.
  using ended =
    std::function<void(endpoint::dialed&&, std::unique_ptr<stream>)>;

  dialing(std::shared_ptr<io_loop> by, order what, ended then);

  void start();

  /// Ends it now; `then` is called.
  void give_up(const std::string& why);

private:
  using clock = std::chrono::steady_clock;

  void find();
  void found(places&& all);
  void try_next();
  void on_connected();
  void meet();
  void on_met();
  void missed(std::string why);
  void again();
  void on_deadline();
  void end(endpoint::dialed&& x, std::unique_ptr<stream> it = {});
  void fail(const std::string& why);
  std::string said(const std::string& why) const;

  std::shared_ptr<io_loop> loop_;
  order what_;
  ended then_;
  places places_;
  std::size_t next_ = 0; ///< Of the places.
  descriptor socket_;
  std::unique_ptr<watch> watch_;
  std::unique_ptr<meeting> meeting_;
  alarm deadline_, pause_, attempt_;
  std::chrono::milliseconds backoff_{10};
  std::string problem_;     ///< Of the last attempt.
  std::string met_problem_; ///< Of the last at which somebody was there.
  bool heard_ = false;      ///< Somebody answered, in some way.
};

} // namespace troupe::net
