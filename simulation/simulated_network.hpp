#pragma once

#include "troupe/actors/collectives/lane_transport.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/simulation/simulator.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe::simulation {

/// What lies between simulated processes. Within a connection all stays in
/// order; one connection passes by another.
struct network {
  std::chrono::nanoseconds latency{std::chrono::microseconds{50}};
  /// Up to so much more, drawn for each message.
  std::chrono::nanoseconds jitter{std::chrono::microseconds{100}};
  /// Bytes a second out of a process, shared by its connections; 0: as many as
  /// it likes.
  double bandwidth = 0;
  /// That may be on their way, or unread, in a lane.
  std::size_t parcels = 4;
  /// Silence before a process takes another for unreachable.
  std::chrono::milliseconds suspect{1000};
};

/// Connections for control and lanes for tensors between P processes, in the
/// time of a sim and by its seed. The bytes of a connection are those of a
/// program; lanes view their parcels, or fetch them, as the seed has it.
/// Heartbeats are not sent: only a cut makes a process silent.
class simulated_network {
public:
  /// @param in outlives the network, and all that is asked of it.
  /// @errors throws std::invalid_argument with the setting and what would do.
  simulated_network(sim& in, std::uint32_t processes, const network& how);
  ~simulated_network();
  simulated_network(const simulated_network&) = delete;
  simulated_network& operator=(const simulated_network&) = delete;

  /// One process's end of its connection to another.
  std::shared_ptr<net::connection> connection(std::uint32_t at,
                                              std::uint32_t to);

  /// One process's ends of its lanes to another. @pre once.
  peer_lanes lanes(std::uint32_t at, std::uint32_t to);

  /// Called when there is news of a process's lanes: a parcel, room, an end.
  void on_news(std::uint32_t process, std::function<void()> fn);

  /// Gives that news at a time.
  void wake_later(std::uint32_t process, std::chrono::nanoseconds delay);

  /// Ends all connections of a process, with all that is under way. `dead`:
  /// all ends are told. `silent`: nobody is; the ends for control conclude it
  /// from silence, those of lanes never.
  void cut(std::uint32_t process, net::ending how);
  bool is_cut(std::uint32_t process) const;

  /// Whatever goes in or out of the process takes so many times as long.
  void slow(std::uint32_t process, double times);

  /// So far.
  struct counts {
    std::size_t messages = 0; ///< Parcels, and writes to a connection.
    std::size_t bytes = 0;
    std::size_t overtakings = 0; ///< Of one connection by another.
  };
  const counts& sent() const;

  class core;

private:
  std::shared_ptr<core> core_;
};

} // namespace troupe::simulation
