#pragma once

#include "troupe/simulation/simulated_network.hpp"

#include <caf/actor.hpp>

#include <array>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace troupe::simulation {

/// A simulated link between two processes: both ends of a connection or lane.
class cable {
public:
  virtual ~cable() = default;

  /// Closes the link; messages in flight are lost. See `disconnect`.
  virtual void cut(net::ending how) = 0;
};

/// State that all links share: the clock, the scheduled deliveries, and the
/// state of each process.
class simulated_network::core
  : public std::enable_shared_from_this<simulated_network::core> {
public:
  using time = caf::timespan;
  using pair = std::pair<std::uint32_t, std::uint32_t>; ///< Lower id first.

  core(sim& in, std::uint32_t processes, const network& how);
  void open();

  time now() const { return in_.elapsed(); }
  /// Schedules a call. Calls that are due at the same time keep their order.
  void at(time due, std::function<void()> fn);
  /// Makes all calls that are due.
  void run_due();

  /// One direction of a link.
  struct road {
    std::uint32_t from = 0, to = 0;
    time last{}; ///< Arrival time of the message that was sent last.
  };
  /// Arrival times of the first and the last byte of a message.
  struct trip {
    time first{}, last{};
  };
  /// Accounts for a message and computes when it arrives.
  trip send(road& on, std::size_t bytes);
  /// Draws the latency of an empty message.
  time moment(std::uint32_t from, std::uint32_t to);

  /// Notifies a process that one of its lanes has changed.
  void news_of(std::uint32_t process) const;
  /// Draws true or false with equal probability.
  bool chance() { return rng_() & 1; }

  const network how;
  struct process {
    time free{};                ///< Time at which all that it sent has left it.
    double slower = 1;          ///< Factor of `clog`.
    bool cut = false;           ///< It is cut off.
    std::function<void()> news; ///< Notifies it of events on its lanes.
    time comes{};               ///< Time at which all that it sent has arrived.
  };
  std::vector<process> processes;
  /// By pair of processes: control connection, contribution lane, result lane.
  std::map<pair, std::array<std::shared_ptr<cable>, 3>> cables;
  counts sent;

private:
  sim& in_;
  std::mt19937_64 rng_;
  /// Calls `run_due` when the clock has reached an event. A reference is kept,
  /// or the actor would terminate while its mailbox is empty.
  caf::actor alarm_;
  std::multimap<time, std::function<void()>> events_;
};

using network_core = simulated_network::core;

/// Makes a simulated control connection between two processes, or one of its
/// ends. Side 0 is the process with the lower number.
std::shared_ptr<cable> make_wire(const std::shared_ptr<network_core>& by,
                                 const network_core::pair& between);
std::shared_ptr<net::connection> end_of_wire(const std::shared_ptr<cable>& x,
                                             std::size_t side);

/// Makes a simulated lane in both directions between two processes, or one of
/// its ends. Side 0 is the process with the lower number.
std::shared_ptr<cable> make_lane(const std::shared_ptr<network_core>& by,
                                 const network_core::pair& between);
std::unique_ptr<net::lane> end_of_lane(const std::shared_ptr<cable>& x,
                                       std::size_t side);

} // namespace troupe::simulation
