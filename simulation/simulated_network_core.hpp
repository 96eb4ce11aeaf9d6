#pragma once

#include "troupe/simulation/simulated_network.hpp"

#include <caf/actor.hpp>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace troupe::simulation {

/// A simulated link between two processes: both ends of a connection or lane.
class simulated_link {
public:
  virtual ~simulated_link() = default;

  /// Closes the link; messages in flight are lost. See
  /// `simulated_network::disconnect` for which ends are notified.
  virtual void disconnect(net::close_reason reason) = 0;
};

/// State that all links share: the clock, the scheduled deliveries, and the
/// state of each process.
class simulated_network::core
  : public std::enable_shared_from_this<simulated_network::core> {
public:
  using time = caf::timespan;
  /// Numbers of two processes; the lower one first.
  using process_pair = std::pair<std::uint32_t, std::uint32_t>;

  core(simulator& sim, std::uint32_t count, const network_options& options);
  void open();

  time now() const { return sim_.elapsed(); }
  /// Schedules a call. Calls that are due at the same time are made in the
  /// order in which they were scheduled.
  void schedule(time due, std::function<void()> fn);
  /// Makes all calls that are due.
  void run_due();

  /// One direction of a link.
  struct direction {
    std::uint32_t sender = 0, receiver = 0;
    time last_arrival{}; ///< Arrival time of the message that was sent last.
  };
  /// Arrival times of the first and the last byte of a message.
  struct transit {
    time first_byte{}, last_byte{};
  };
  /// Counts a message and computes when it arrives.
  transit send(direction& path, std::size_t bytes);
  /// Draws the latency of an empty message.
  time sample_latency(std::uint32_t sender, std::uint32_t receiver);

  /// Notifies a process that one of its lanes has changed.
  void notify(std::uint32_t process) const;
  /// Makes a call in a process: at once, or when the process is resumed.
  void when_running(std::uint32_t process, std::function<void()> fn);
  /// Disconnects all links between two processes.
  void disconnect(const process_pair& between, net::close_reason reason);
  /// Draws true or false with equal probability.
  bool flip_coin() { return rng_() & 1; }

  const network_options options;
  struct process {
    /// Time at which the process has sent its last message completely.
    time idle_at{};
    double slowdown = 1; ///< Factor set by `clog`.
    bool disconnected = false;
    /// Counts the calls of `restart`.
    std::uint64_t restarts = 0;
    net::hello own_hello; ///< Hello of the process, if it listens.
    /// Receives accepted connections. Empty: the process does not listen.
    simulated_network::acceptor accept;
    /// As in `simulated_network::listen`.
    simulated_network::admission admit{};
    /// Called when a lane of the process has changed.
    std::function<void()> on_lane_event;
    /// Latest arrival time of the messages that the process has sent.
    time last_arrival{};
    bool paused = false;
    /// Calls to be made when the process is resumed.
    std::vector<std::function<void()>> deferred;
  };
  std::vector<process> processes;
  /// Pairs of processes that `separate` was called for.
  std::set<process_pair> separated;
  /// By pair of processes: the lanes, by number.
  std::map<process_pair, std::vector<std::shared_ptr<simulated_link>>> lanes;
  /// By pair of processes: the control connection that `connection` returns.
  std::map<process_pair, std::shared_ptr<simulated_link>> connections;
  /// Control connections that were dialed. Their ends own them.
  std::vector<std::pair<process_pair, std::weak_ptr<simulated_link>>> dialed;
  /// Lanes that `make_lanes` has made. Their ends own them.
  std::vector<std::pair<process_pair, std::weak_ptr<simulated_link>>>
    made_lanes;
  /// Receives each frame that is posted. Empty: none does.
  simulated_network::frame_observer on_frame;
  counts sent;

private:
  simulator& sim_;
  std::mt19937_64 rng_;
  /// Calls `run_due` when a scheduled call is due. This reference keeps the
  /// actor alive while its mailbox is empty.
  caf::actor timer_;
  std::multimap<time, std::function<void()>> events_;
};

using network_core = simulated_network::core;

} // namespace troupe::simulation
