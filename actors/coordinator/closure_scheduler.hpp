#pragma once

#include "troupe/actors/protocol/closure_actors.hpp"
#include "troupe/actors/protocol/shard_router_actor.hpp"
#include "troupe/strategies/coordinator/state_machine.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

/// Spawn arguments of a closure scheduler.
struct closure_scheduler_config {
  shard_router_actor router; ///< Router to the shards.
  std::uint32_t shards = 1;
  std::uint64_t life = 1;  ///< Greater than that of all coordinators before.
  std::uint64_t first = 0; ///< Number of the first closure.
  /// Timeout of a request to a shard.
  std::chrono::milliseconds timeout{60'000};
  /// Called once if a shard is lost or the scheduler has ended: no closure can
  /// be done any more. Called on the thread of the scheduler.
  std::function<void(const std::string& why)> on_broken;
  /// Called if a worker has ended by itself. Called on the thread of the
  /// scheduler.
  std::function<void(std::uint64_t id, const std::string& why)> on_worker_lost;
};

/// State of a closure scheduler, which hosts the state machine of the
/// coordinator.
struct closure_scheduler_state {
  static inline const char* name = "closure scheduler";

  explicit closure_scheduler_state(closure_scheduler_actor::pointer self)
    : self{self} {}
  ~closure_scheduler_state();

  void configure(closure_scheduler_config config);
  void schedule(shared_closure what);
  void add_worker(const new_worker& x);
  void remove_worker(std::uint64_t worker);
  void on_report(const coordinator::execution& from, const tensors& what);
  void on_down(const caf::down_msg& x);
  void fail_all(const std::string& why);
  void cancel_all();
  void perform(coordinator::reaction&& effects);

  void perform(coordinator::send_run& x);
  void perform(coordinator::send_cancel& x);
  void perform(coordinator::send_decision& x);
  void perform(coordinator::result_ready& x);
  void perform(coordinator::cancelled& x);
  void perform(coordinator::error_ready& x);
  void perform(coordinator::protocol_error& x);
  void perform(coordinator::record_end& x);
  // No answer of a worker is lost without the worker.
  void perform(coordinator::send_query&) {}
  // The coordinator ends with its program, which keeps no records.
  void perform(coordinator::record_error&) {}
  void perform(coordinator::forget_records&) {}

  /// Removes a closure that is done or cancelled.
  shared_closure take(std::uint64_t ordinal);
  std::shared_ptr<closure_listener> settle(std::uint64_t ordinal);
  void accept_waiting();

  closure_scheduler_actor::pointer self;
  closure_scheduler_config config;
  std::optional<coordinator::state_machine> machine;
  std::map<std::uint64_t, closure_worker_actor> workers; ///< By id.
  std::map<std::uint64_t, shared_closure> closures;      ///< By ordinal.
  /// Closures that have come before the state machine could take them.
  std::deque<shared_closure> waiting;
  bool is_broken = false; ///< A shard is lost.
};

/// Schedules closures on workers. It hosts `coordinator::state_machine`.
closure_scheduler_actor::behavior_type closure_scheduler(
  closure_scheduler_actor::stateful_pointer<closure_scheduler_state> self,
  closure_scheduler_config config);

} // namespace troupe
