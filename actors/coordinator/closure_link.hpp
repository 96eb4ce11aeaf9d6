#pragma once

#include "troupe/actors/protocol/closure_actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// Spawn arguments of a closure link.
struct closure_link_config {
  std::uint64_t id = 0;     ///< Of `new_worker`.
  std::uint32_t number = 0; ///< Of the worker, for errors.
  std::string address;      ///< Of the node, for errors.
  closure_worker_owner_actor owner;
  remote_closure_worker_actor worker;
  /// Of a request to the node. The node answers within a second
  /// (`answer_interval`), but inputs and results may be large.
  std::chrono::milliseconds timeout{};
};

/// State of a closure link. Executions that are wanted at the same time travel
/// in one request, and so do the ends that a node has at the same time.
struct closure_link_state {
  static inline const char* name = "closure link";

  explicit closure_link_state(closure_worker_actor::pointer self)
    : self{self} {}

  void run(const coordinator::run& x, const shared_closure& what);
  void cancel(const coordinator::cancel& x);
  /// Sends what waits, after the messages that have arrived.
  void send_later();
  void send_waiting();

  /// Sends executions from the front of `waiting`, at least one.
  void send_some();
  void request(remote_runs runs, tensors inputs);
  void on_ends(const remote_ends& ends, const tensors& results);
  void on_error(const std::vector<coordinator::execution>& some,
                const caf::error& why);
  /// Asks for results that the node has kept.
  void fetch_kept();
  void end(const coordinator::ended& x, tensors results);
  void fail(const coordinator::execution& which, const std::string& why);

  struct waiting_run {
    coordinator::run run;
    shared_closure what;
  };

  closure_worker_actor::pointer self;
  closure_link_config config;
  std::deque<waiting_run> waiting;           ///< Not sent yet.
  std::set<coordinator::execution> executed; ///< Sent, and not ended.
  std::deque<coordinator::ended> kept; ///< Their results are not asked for.
  std::size_t open_requests = 0, open_fetches = 0;
  bool next_pending = false; ///< An `atom::next` to itself is on its way.
};

/// Stands for a worker on a node. It sends the executions to the node, and
/// tells the scheduler what becomes of them. It ends when the worker is lost.
closure_worker_actor::behavior_type
closure_link(closure_worker_actor::stateful_pointer<closure_link_state> self,
             closure_link_config config);

} // namespace troupe
