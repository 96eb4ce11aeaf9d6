#pragma once

#include "troupe/actors/crew.hpp"
#include "troupe/tensors/device.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class replica_context;

/// What all handles of a strategy share.
struct strategy_state {
  std::string name;
  bool is_default = false;
  std::vector<device> devices;
  std::uint32_t replicas = 1;
  std::uint32_t copies = 1; ///< Of the parameters of models made in scope.
  int threads = 1;
  std::unique_ptr<crew> members;

  /// One piece of work at a time, from any thread.
  std::atomic<bool> working{false};
  /// Of `strategy::run`, whose random numbers differ from step to step.
  std::uint64_t next_step = 0;
};

/// Runs work on the strategy's replicas, each step in replica context.
/// @errors throws std::logic_error if work runs already, or in a replica
///         context; what a step threw, from the lowest replica that threw; else
///         as `crew::run`.
std::uint64_t run_work(const std::shared_ptr<strategy_state>& on,
                       const work& x);

/// Where code runs; what `context::place` points to.
struct place_in_job {
  std::shared_ptr<strategy_state> strategy;
  replica_context* replica = nullptr; ///< Null: cross-replica context.
};

/// Null where no strategy is in scope.
const place_in_job* current_place();

/// Makes a place current for a block.
class place_scope {
public:
  explicit place_scope(const place_in_job& x);
  ~place_scope();
  place_scope(const place_scope&) = delete;
  place_scope& operator=(const place_scope&) = delete;

private:
  const void* before_;
};

} // namespace troupe
