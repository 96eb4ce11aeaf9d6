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

/// Where others knock: accepts connections and runs their handshakes, a limited
/// number at a time. For the loop's thread, but for its making.
class door {
public:
  using clock = std::chrono::steady_clock;
  struct settings {
    std::size_t half_open = 256;
    std::chrono::milliseconds patience{5000};
    std::string secret{};
    /// A stream over a connected socket.
    std::function<std::unique_ptr<stream>(int)> wrap;
    std::function<verdict(const hello&)> decide;
    std::function<void(const hello&, std::unique_ptr<stream>)> take;
    std::function<void(const hello&)> gone; ///< Taken, but never told so.
    /// Whence, and why: one was closed, who had not proven who he is or was
    /// refused by `decide`.
    std::function<void(const std::string&, const std::string&)> failed, refused;
    std::function<void(const std::string&)> warn;
    std::function<void()> pushed_out; ///< One more that was too slow.
  };

  door(io_loop& by, descriptor listening, settings how);

  /// From then on connections are accepted.
  void open();
  /// Ends handshakes that take too long.
  void tick(clock::time_point now);

  std::size_t half_open() const { return guests_.size(); }

private:
  struct guest {
    std::string from;
    clock::time_point since;
    std::unique_ptr<meeting> talk;
  };
  using guests = std::list<guest>; ///< The oldest first.

  void on_knock();
  /// @returns whether to try the next.
  bool accept_one();
  bool is_full(int error);
  void receive(descriptor socket, const place& from);
  void on_met(guests::iterator who);
  void push_out_oldest();
  void forget(guests::iterator who);

  io_loop& loop_;
  const descriptor listening_;
  settings how_;
  guests guests_;
  std::optional<watch> watch_;
  alarm pause_;
};

} // namespace troupe::net
