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
  /// Placement of the replicas of `group`.
  local_placement placement;

  /// Timeout for another worker to finish a save or a callback, or to call
  /// `fit`, `evaluate` or `save`. Zero: the step timeout of the group.
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
