#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/tensors/device.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class replica_context;

/// State shared by all handles of a strategy.
struct strategy_state {
  std::string name;
  bool is_default = false;
  std::vector<device> devices;
  std::uint32_t replicas = 1; ///< Replicas of the job.
  /// Copies of the parameters in this process, for models made in the scope.
  std::uint32_t copies = 1;
  int threads = 1;
  std::size_t bytes_per_pack = 0; ///< `communication_options::bytes_per_pack`.
  std::string transport = "none"; ///< Transport of tensors to other workers.
  /// The cluster under the replica group. Null: one process.
  std::shared_ptr<void> cluster;
  std::unique_ptr<replica_group> group;
  /// The range of `group` in this process.
  replica_group::replica_range local_replicas;

  /// Timeout of the wait for a worker that saves, runs a callback or enters
  /// `fit`, `evaluate` or `save` late. Zero: the step timeout of the group.
  std::chrono::milliseconds callback_timeout{0};

  /// True while a run is active; a strategy runs one at a time, from any
  /// thread.
  std::atomic<bool> running{false};
  /// Number of the next step of `run_one_step`.
  std::uint64_t next_step = 0;
  /// Calls of `strategy::run` that returned without an exception: the step
  /// number in the random numbers of the next call.
  std::uint64_t runs = 0;
};

/// Runs steps on the strategy's replicas, each in replica context. If it
/// throws, a stuck replica may still be inside the step function, so the
/// function must own what it uses. The function is destroyed when the call has
/// ended and no replica is inside.
/// @errors throws std::logic_error if a run is active, or in a replica context;
///         the exception of the lowest replica whose step threw; else as
///         `replica_group::run`.
std::uint64_t run_steps(const std::shared_ptr<strategy_state>& state,
                        const run_request& request);

/// Makes the state of a strategy over a replica group, with a copy of the
/// parameters for each replica of this process.
/// @param devices of the replicas of this process.
std::shared_ptr<strategy_state>
make_strategy_state(std::unique_ptr<replica_group> group, std::string name,
                    std::vector<device> devices, int threads);

/// Runs one step in which `fn` is called for each replica of this process. `fn`
/// must own what it uses. In a job of several processes all of them must call
/// it.
/// @param join_timeout timeout of the wait for the other processes to call it.
///             Zero: the step timeout of the group.
void run_one_step(const std::shared_ptr<strategy_state>& state,
                  const std::function<void(replica_context&)>& fn,
                  std::chrono::milliseconds join_timeout = {});

/// Returns the texts of all processes, by process. All of them must call it;
/// each waits for the others as in `run_one_step`. In a job of one process it
/// returns that text alone.
std::vector<std::string>
all_gather_text(const std::shared_ptr<strategy_state>& state,
                const std::string& own_text,
                std::chrono::milliseconds join_timeout = {});

/// Calls `fn` in process 0 while the others wait for its end, at most the
/// callback timeout. An exception of `fn` is rethrown in process 0 and is a
/// std::runtime_error in the others.
void run_on_chief(const std::shared_ptr<strategy_state>& state,
                  const std::function<void()>& fn);

/// Execution scope of the running code; `context::execution_scope` points to
/// it.
struct execution_scope {
  std::shared_ptr<strategy_state> strategy;
  replica_context* replica = nullptr; ///< Null: cross-replica context.
};

/// Null: no strategy is in scope.
const execution_scope* current_execution_scope();

/// Makes an execution scope current during its lifetime.
class execution_scope_guard {
public:
  explicit execution_scope_guard(const execution_scope& scope);
  ~execution_scope_guard();
  execution_scope_guard(const execution_scope_guard&) = delete;
  execution_scope_guard& operator=(const execution_scope_guard&) = delete;

private:
  const void* previous_;
};

} // namespace troupe
