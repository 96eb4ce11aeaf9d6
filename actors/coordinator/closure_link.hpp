#pragma once

#include "troupe/actors/protocol/closure_actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace troupe {

/// Spawn arguments of a closure link.
struct closure_link_config {
  std::uint64_t id = 0;     ///< Id in `new_worker`.
  std::uint32_t number = 0; ///< Number of the worker, for errors.
  std::string address;      ///< Address of the node, for errors.
  closure_worker_owner_actor owner;
  remote_closure_worker_actor worker;
  /// Timeout of a request to the node, which may have large inputs or results.
  std::chrono::milliseconds timeout{};
};

/// State of a closure link. What is wanted of the node at the same time travels
/// in one poll, and so does what has ended there at the same time. At most
/// `max_open_polls` with executions are open, and no executions are sent while
/// large inputs are on their way.
struct closure_link_state {
  static inline const char* name = "closure link";

  explicit closure_link_state(closure_worker_actor::pointer self)
    : self{self} {}

  void run(const coordinator::run& x, const shared_closure& what);
  void cancel(const coordinator::cancel& x);

  /// Calls `send_work` after the messages that have arrived.
  void send_work_later();
  /// Sends what waits, as far as the limits permit, and polls the node if
  /// executions have not ended.
  void send_work();
  /// Takes executions from the front of `waiting`, and appends their inputs.
  /// @param is_alone the poll has no other work. Then it takes at least one.
  std::vector<remote_run> take_runs(tensors& inputs, bool is_alone);
  void poll(remote_work work, tensors inputs);

  void on_ends(const remote_ends& ends, const tensors& results);
  /// Tells the scheduler the end of an execution, once.
  void end(const coordinator::ended& x, tensors results);
  void fail(const coordinator::execution& which, const std::string& why);
  /// The worker cannot be used any more. Its role ends too.
  void give_up(const caf::error& why);
  /// Names the worker, for errors.
  std::string worker_text() const;
  void reject(const coordinator::execution& which, const std::string& problem);
  /// Fetches the next results that the node keeps, if none are on their way.
  void fetch_next();
  void on_fetched(const coordinator::execution& from);

  struct waiting_run {
    coordinator::run run;
    shared_closure what;
  };

  closure_worker_actor::pointer self;
  closure_link_config config;
  std::deque<waiting_run> waiting; ///< Not sent yet.
  /// Not told to the node yet.
  std::vector<coordinator::execution> cancelled, fetched;
  /// Executions that were sent and have not ended, and whether the node keeps
  /// their results.
  std::map<coordinator::execution, bool> executed;
  std::deque<coordinator::ended> kept; ///< Their results are not fetched yet.
  bool is_fetching = false;
  std::size_t open_polls = 0;
  std::size_t open_bytes = 0; ///< Inputs of these polls.
  bool next_pending = false;  ///< An `atom::next` to itself is on its way.
};

/// Stands for a worker on a node. It sends the executions to the node, and
/// tells the scheduler what becomes of them. It ends when the worker is lost,
/// or when a request to it fails.
closure_worker_actor::behavior_type
closure_link(closure_worker_actor::stateful_pointer<closure_link_state> self,
             closure_link_config config);

} // namespace troupe
