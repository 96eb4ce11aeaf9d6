#pragma once

#include "troupe/actors/core/fiber.hpp"
#include "troupe/actors/protocol/closure_actors.hpp"
#include "troupe/actors/protocol/shard_actor.hpp"
#include "troupe/strategies/coordinator/executions.hpp"
#include "troupe/tensors/context.hpp"

#include <caf/actor_clock.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// Spawn arguments of a closure worker.
struct closure_worker_config {
  std::uint64_t id = 0;     ///< Of `new_worker`.
  std::uint32_t number = 0; ///< That closures see.
  closure_worker_owner_actor owner;
  std::vector<shard_actor> shards;
  std::chrono::milliseconds timeout{60'000}; ///< Of a request to a shard.
  int threads = 1;                           ///< Of the ops of a closure.
  std::uint64_t seed = 0;                    ///< Of the random numbers.
  /// Set from any thread: the execution that runs shall end.
  std::shared_ptr<std::atomic<bool>> ending =
    std::make_shared<std::atomic<bool>>(false);
  /// Destroyed with the worker, on its thread.
  std::shared_ptr<const void> keeps{};
};

class worker_environment;

/// State of a closure worker. It executes one closure at a time, on a fiber. A
/// closure that waits for a shard parks the fiber. When a closure has returned,
/// its effects are stored at their shards, and the next one begins meanwhile.
struct closure_worker_state {
  static inline const char* name = "closure worker";

  explicit closure_worker_state(closure_worker_actor::pointer self);
  ~closure_worker_state();

  void configure(closure_worker_config config);
  void on_run(const coordinator::run& received, shared_closure what);
  void on_cancel(const coordinator::cancel& received);
  void begin_next();

  /// Continues the closure until it waits or ends.
  void resume();
  void end_execution();
  void store_effects();
  void on_stored(const coordinator::execution& from);
  void fail(const coordinator::execution& which, std::exception_ptr thrown);
  void report_stopped(const coordinator::execution& which);

  /// An execution that waits for its turn.
  struct waiting_closure {
    coordinator::run run;
    shared_closure what;
  };
  /// An execution that has returned, and whose effects are on their way.
  struct storing {
    std::uint32_t unanswered = 0; ///< Shards that have not answered.
    std::vector<std::uint32_t> shards;
    coordinator::payload result;
    std::shared_ptr<worker_environment> environment;
  };
  /// Calls `request` again in a moment, if a shard was busy and the time since
  /// `begin` is below the timeout. Otherwise calls `fail`.
  void retry(const caf::error& why, caf::actor_clock::time_point begin,
             std::function<void()> request, const std::function<void()>& fail);
  void store_at(std::uint32_t shard, const coordinator::run& from,
                const std::vector<addressed_change>& changes,
                caf::actor_clock::time_point begin);

  closure_worker_actor::pointer self;
  closure_worker_config config;
  coordinator::executions begun;
  std::deque<waiting_closure> queue;
  bool next_pending = false; ///< A `next` message to itself is pending.
  std::map<coordinator::execution, storing> stores;
  std::vector<std::function<void()>> retries; ///< Requests to send again.

  context own_context; ///< Of the ops in closures.
  std::optional<waiting_closure> current;
  std::shared_ptr<worker_environment> environment; ///< Of `current`.
  coordinator::payload result;                     ///< Of `current`.
  /// Runs the closure. Declared last, because the closure uses all members
  /// above.
  std::unique_ptr<fiber> body;
};

/// Executes closures for a closure scheduler.
closure_worker_actor::behavior_type closure_worker(
  closure_worker_actor::stateful_pointer<closure_worker_state> self,
  closure_worker_config config);

} // namespace troupe
