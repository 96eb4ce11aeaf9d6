#pragma once

#include "troupe/actors/collectives/lane_transport.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/net/session/endpoint.hpp"
#include "troupe/simulation/simulator.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace troupe::simulation {

/// Properties of the network between simulated processes. A connection keeps
/// the order of its messages; messages of different connections can arrive in
/// any order.
struct network_options {
  /// Minimum time that a message takes.
  std::chrono::nanoseconds latency{std::chrono::microseconds{50}};
  /// Maximum additional latency, drawn for each message.
  std::chrono::nanoseconds jitter{std::chrono::microseconds{100}};
  /// Bytes per second that a process can send over all its connections. Zero:
  /// no limit.
  double bandwidth = 0;
  /// Number of lanes between two processes. Jobs use two.
  std::size_t lanes = collective::lane_ids.size();
  /// Maximum number of packets in each direction of a lane that are in flight
  /// or not popped.
  std::size_t lane_capacity = 4;
  /// Time between two heartbeats of a process on a control connection. Zero: no
  /// heartbeats, and no peer is ever considered unreachable.
  std::chrono::milliseconds heartbeat_interval{100};
  /// Time without data from a peer after which a process considers the peer
  /// unreachable. At least twice the heartbeat interval.
  std::chrono::milliseconds heartbeat_timeout{1000};
};

/// Simulated control connections and tensor lanes between P processes, with the
/// clock and the seed of a simulator. A connection carries the same bytes as a
/// real connection, heartbeats included. Its ends detect a silent peer with the
/// failure detector of a real connection, on the virtual clock. The seed
/// decides on which lanes the receiver views packets in place, and on which it
/// copies them.
class simulated_network {
public:
  /// @param sim must outlive the network and its connections and lanes.
  /// @errors throws std::invalid_argument for an invalid option.
  simulated_network(simulator& sim, std::uint32_t count,
                    const network_options& options);
  ~simulated_network();
  simulated_network(const simulated_network&) = delete;
  simulated_network& operator=(const simulated_network&) = delete;

  /// Returns one end of the control connection between two processes: the end
  /// of `process`. The connection is open from the start.
  std::shared_ptr<net::connection> connection(std::uint32_t process,
                                              std::uint32_t peer);

  /// Receives the hello of a process that has dialed, and the new connection.
  using acceptor =
    std::function<void(const net::hello&, std::shared_ptr<net::connection>)>;
  /// Returns why a process refuses the hello of one that has dialed. Empty: it
  /// accepts it.
  using admission = std::function<std::string(const net::hello&)>;
  /// Lets a process accept control connections. A later call replaces the
  /// acceptor; an empty one lets it accept no more.
  /// @param admit null: every hello is accepted.
  void listen(std::uint32_t process, const net::hello& own_hello,
              acceptor accept, admission admit = {});

  /// Opens a control connection to a process that listens. Tries again until
  /// the timeout has elapsed, like an endpoint. Calls `on_done` once, unless
  /// `process` is disconnected.
  void dial(std::uint32_t process, std::uint32_t peer,
            const net::hello& own_hello, std::chrono::milliseconds timeout,
            std::function<void(net::endpoint::dial_result&&)> on_done);

  /// Returns one end of each lane between two processes: the ends of `process`,
  /// by number of the lane.
  /// @pre this function was not called with the same arguments before.
  peer_lanes lanes(std::uint32_t process, std::uint32_t peer);

  /// Makes lanes between two processes, as many as jobs use. A lane ends when
  /// one of its ends is destroyed; what was sent before arrives.
  /// @returns the ends of `process` and those of `peer`.
  std::pair<peer_lanes, peer_lanes> make_lanes(std::uint32_t process,
                                               std::uint32_t peer);

  /// Calls a function in another process after the latency of an empty message.
  /// No effect if one of the two is disconnected then.
  void deliver(std::uint32_t sender, std::uint32_t receiver,
               std::function<void()> fn);

  /// Makes a call after a delay.
  void call_later(std::chrono::nanoseconds delay, std::function<void()> fn);

  /// Receives each frame that a process posts on a control connection.
  using frame_observer =
    std::function<void(std::uint32_t process, const net::frame&)>;
  void observe(frame_observer fn);

  /// Sets the function that is called when a lane of a process has changed: a
  /// packet arrived, space became free, or the lane closed.
  void on_lane_event(std::uint32_t process, std::function<void()> fn);

  /// Calls the function that `on_lane_event` set for the process, after a
  /// delay.
  void notify_later(std::uint32_t process, std::chrono::nanoseconds delay);

  /// Cuts all connections and lanes of a process; messages in flight are lost.
  /// With `closed` both ends of each connection and lane are notified. With
  /// `timed_out` no end is notified: those of control connections close after
  /// the heartbeat timeout, if there are heartbeats. No effect if the process
  /// is disconnected already.
  void disconnect(std::uint32_t process, net::close_reason reason);
  /// Ends the disconnection of a process, which can then listen and dial. Its
  /// old connections and lanes stay cut.
  void restart(std::uint32_t process);
  bool is_disconnected(std::uint32_t process) const;

  /// Cuts all connections and lanes between two processes. Both ends of each
  /// are notified.
  void cut(std::uint32_t process, std::uint32_t peer);

  /// From now on, nothing passes between two processes, and no dial between
  /// them succeeds, also if one of them is restarted. Their connections and
  /// lanes become silent, as those of `disconnect` with `timed_out`.
  void separate(std::uint32_t process, std::uint32_t peer);

  /// From now on the process sends no heartbeats, and what arrives on its
  /// control connections waits until `resume`. The caller must not run the
  /// roles of the process meanwhile.
  void pause(std::uint32_t process);
  /// The process receives what has arrived, and sends the heartbeats that are
  /// due, at once.
  void resume(std::uint32_t process);

  /// Makes all messages to and from the process take `factor` times as long.
  /// Between two slowed processes the greater factor applies.
  void clog(std::uint32_t process, double factor);

  /// Traffic since the construction.
  struct counts {
    /// Number of packets and of writes to connections.
    std::size_t messages = 0;
    std::size_t bytes = 0;
    /// Number of messages that arrive before a message that the same sender
    /// sent earlier.
    std::size_t reorderings = 0;
  };
  const counts& sent() const;

  class core;

private:
  std::shared_ptr<core> core_;
};

} // namespace troupe::simulation
