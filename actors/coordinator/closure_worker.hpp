#pragma once

#include "troupe/actors/core/fiber.hpp"
#include "troupe/actors/protocol/closure_actors.hpp"
#include "troupe/actors/protocol/shard_router_actor.hpp"
#include "troupe/strategies/coordinator/executions.hpp"
#include "troupe/tensors/context.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Maximum number of closures that a worker executes at a time.
inline constexpr std::uint32_t max_interleaved = 64;

/// Spawn arguments of a closure worker.
struct closure_worker_config {
  std::uint64_t id = 0;     ///< Id in `new_worker`.
  std::uint32_t number = 0; ///< Number of the worker, for closures.
  closure_worker_owner_actor owner;
  shard_router_actor router; ///< Router to the shards.
  std::string servers{};     ///< Name of the servers that have these shards.
  /// Timeout of a request to a shard.
  std::chrono::milliseconds timeout{60'000};
  int threads = 1;               ///< Threads of the ops of a closure.
  std::uint32_t interleaved = 1; ///< Closures at a time. Above 0.
  std::uint64_t seed = 0;        ///< Seed of the random numbers.
  /// Set from any thread: the execution that runs shall end.
  std::shared_ptr<std::atomic<bool>> ending =
    std::make_shared<std::atomic<bool>>(false);
  /// Destroyed with the worker, on its thread.
  std::shared_ptr<const void> keeps{};
};

class worker_environment;

/// State of a closure worker. It executes closures on fibers of one thread, a
/// limited number at a time, and beside them all closures that wait for others.
/// A closure that waits for a shard parks its fiber, and another one begins or
/// goes on meanwhile. When a closure has returned, its effects are stored at
/// their shards, and the next one begins meanwhile.
struct closure_worker_state {
  static inline const char* name = "closure worker";

  explicit closure_worker_state(closure_worker_actor::pointer self);
  ~closure_worker_state();

  void configure(closure_worker_config config);
  void on_run(const coordinator::run& received, shared_closure what);
  void on_cancel(const coordinator::cancel& received);
  void begin_next();

  /// An execution that waits for its turn.
  struct waiting_closure {
    coordinator::run run;
    shared_closure what;
  };
  /// A fiber, and the execution on it.
  struct slot {
    bool is_extra = false; ///< For closures that wait for others.
    context own_context;   ///< Context of the ops in closures.
    std::optional<waiting_closure> current; ///< None: the slot is free.
    /// Environment of `current`.
    std::shared_ptr<worker_environment> environment;
    coordinator::payload result; ///< Result of `current`.
    /// Runs the closure. Declared last, because the closure uses all members
    /// above.
    std::unique_ptr<fiber> body;
  };

  /// Continues a closure until it waits or ends.
  void resume(slot& on);
  void end_execution(slot& on);
  void store_effects(const slot& from, coordinator::payload&& result);
  slot& add_slot(bool is_extra);
  slot* find_free_slot(bool is_extra) const;
  /// Returns the first execution that can begin.
  std::deque<waiting_closure>::iterator find_next();
  /// Begins the next closure after the messages that have arrived, if one can
  /// begin.
  void begin_later();
  void on_stored(const coordinator::execution& from);
  void fail(const coordinator::execution& which, std::exception_ptr thrown);
  void report_stopped(const coordinator::execution& which);

  /// An execution that has returned, and whose effects are on their way.
  struct storing {
    std::uint32_t unanswered = 0; ///< Shards that have not answered.
    std::vector<std::uint32_t> shards;
    coordinator::payload result;
    std::shared_ptr<worker_environment> environment;
  };
  void store_at(std::uint32_t shard, const coordinator::run& from,
                const std::vector<addressed_change>& changes);

  closure_worker_actor::pointer self;
  closure_worker_config config;
  std::uint64_t worker_id = 0; ///< `closure_environment::worker_id`.
  coordinator::executions begun;
  std::deque<waiting_closure> queue;
  bool next_pending = false; ///< A `next` message to itself is pending.
  std::map<coordinator::execution, storing> stores;
  /// Declared last, because closures use all members above. Extra slots are
  /// added when they are needed.
  std::vector<std::unique_ptr<slot>> slots;
};

/// Executes closures for a closure scheduler.
closure_worker_actor::behavior_type closure_worker(
  closure_worker_actor::stateful_pointer<closure_worker_state> self,
  closure_worker_config config);

} // namespace troupe
