#pragma once

#include "troupe/net/io/socket_address.hpp"
#include "troupe/net/session/endpoint.hpp"
#include "troupe/net/session/handshaker.hpp"

#include <chrono>
#include <functional>
#include <memory>

namespace troupe::net {

/// One `dial`: resolves the host, connects, runs the handshake, and retries
/// until it is accepted, rejected, or past the deadline. For the loop's thread.
class dialing : public std::enable_shared_from_this<dialing> {
public:
  struct order {
    address where;
    hello who;
    std::string secret;
    std::chrono::steady_clock::time_point deadline;
    /// Timeout of one attempt: to connect and complete the handshake.
    std::chrono::milliseconds patience;
    bool loopback_only = false;
    /// Makes a stream over a connected socket.
    std::function<std::unique_ptr<stream>(int)> wrap;
  };
  /// Called once, with the result. The stream is null unless the handshake was
  /// accepted.
  using ended =
    std::function<void(endpoint::dialed&&, std::unique_ptr<stream>)>;

  dialing(std::shared_ptr<io_loop> by, order what, ended then);

  void start();

  /// Ends the dial now; the completion function is called.
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
  std::size_t next_ = 0; ///< Index of the next address to try.
  descriptor socket_;
  std::unique_ptr<watch> watch_;
  std::unique_ptr<meeting> meeting_;
  alarm deadline_, pause_, attempt_;
  std::chrono::milliseconds backoff_{10};
  std::string problem_; ///< Reason of the last failed attempt.
  /// Reason of the last attempt that failed in its handshake.
  std::string met_problem_;
  /// The peer answered: a handshake, a refusal, or a reset.
  bool heard_ = false;
};

} // namespace troupe::net
