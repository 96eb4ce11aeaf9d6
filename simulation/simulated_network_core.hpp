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

/// Both ends of one connection or lane.
class cable {
public:
  virtual ~cable() = default;

  /// What is under way is lost.
  virtual void cut(net::ending how) = 0;
};

/// What all cables share: the time, what is to happen when, and who is slow.
class simulated_network::core
  : public std::enable_shared_from_this<simulated_network::core> {
public:
  using time = caf::timespan;
  using pair = std::pair<std::uint32_t, std::uint32_t>; ///< The lower first.

  core(sim& in, std::uint32_t processes, const network& how);
  void open();

  time now() const { return in_.elapsed(); }
  void at(time due, std::function<void()> fn);
  void run_due();

  /// One direction of a cable.
  struct road {
    std::uint32_t from = 0, to = 0;
    time last{}; ///< When what was sent last comes.
  };
  /// When the first and the last byte of a message come.
  struct trip {
    time first{}, last{};
  };
  trip send(road& on, std::size_t bytes);
  /// How long a word without bytes takes.
  time moment(std::uint32_t from, std::uint32_t to);

  void news_of(std::uint32_t process) const;
  bool chance() { return rng_() & 1; }

  const network how;
  struct process {
    time free{}; ///< When its card has sent all.
    double slower = 1;
    bool cut = false;
    std::function<void()> news;
    time comes{}; ///< When all that it has sent so far has come.
  };
  std::vector<process> processes;
  /// By pair: control, parts, sums.
  std::map<pair, std::array<std::shared_ptr<cable>, 3>> cables;
  counts sent;

private:
  sim& in_;
  std::mt19937_64 rng_;
  caf::actor alarm_; ///< Held: else it ends when it has no mail.
  std::multimap<time, std::function<void()>> events_;
};

using network_core = simulated_network::core;

/// A connection of control, and its two ends: 0 is the lower process's.
std::shared_ptr<cable> make_wire(const std::shared_ptr<network_core>& by,
                                 const network_core::pair& between);
std::shared_ptr<net::connection> end_of_wire(const std::shared_ptr<cable>& x,
                                             std::size_t side);

std::shared_ptr<cable> make_lane(const std::shared_ptr<network_core>& by,
                                 const network_core::pair& between);
std::unique_ptr<net::lane> end_of_lane(const std::shared_ptr<cable>& x,
                                       std::size_t side);

} // namespace troupe::simulation
