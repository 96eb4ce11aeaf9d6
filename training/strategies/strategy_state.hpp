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

/// What all handles of a strategy share.
struct strategy_state {
  std::string name;
  bool is_default = false;
  std::vector<device> devices;
  std::uint32_t replicas = 1; ///< Of the job.
  std::uint32_t copies = 1;   ///< Of the parameters, here, of models in scope.
  int threads = 1;
  std::size_t bytes_per_pack = 0;   ///< As communication_options has it.
  std::string transport = "none";   ///< Of tensors to other workers.
  std::shared_ptr<void> connection; ///< What the crew runs over; may be null.
  std::unique_ptr<crew> members;
  crew::share here; ///< As the members say.

  /// How long workers wait for one that saves, is in a callback or comes late
  /// to `fit`, `evaluate` or `save`. Zero: the patience of the members.
  std::chrono::milliseconds callback_timeout{0};

  /// One piece of work at a time, from any thread.
  std::atomic<bool> working{false};
  /// Of `run_once`.
  std::uint64_t next_step = 0;
  /// Calls of `strategy::run` so far that did not throw: the step of the random
  /// numbers of the next.
  std::uint64_t runs = 0;
};

/// Runs work on the strategy's replicas, each step in replica context. If it
/// throws, a replica that is stuck may still be inside the step function: what
/// that uses, it owns. The function is destroyed when the call has ended and
/// no replica is inside.
/// @errors throws std::logic_error if work runs already, or in a replica
///         context; what a step threw, from the lowest replica that threw; else
///         as `crew::run`.
std::uint64_t run_work(const std::shared_ptr<strategy_state>& on,
                       const work& x);

/// Of a strategy over that crew; a copy of the parameters for each replica
/// here.
/// @param devices where the replicas of this process compute.
std::shared_ptr<strategy_state> state_over(std::unique_ptr<crew> members,
                                           std::string name,
                                           std::vector<device> devices,
                                           int threads);

/// One step in which `fn` is called for each replica of this process; like a
/// step function, it owns what it uses. Over several processes all of them do
/// so.
/// @param join_timeout longest wait for the others to call it; zero: the
///                     patience of the members.
void run_once(const std::shared_ptr<strategy_state>& on,
              const std::function<void(replica_context&)>& fn,
              std::chrono::milliseconds join_timeout = {});

/// What each process brings, by process. All of them call it; each waits for
/// the others, as `run_once`. In one process: just what it brings.
std::vector<std::string> tell_all(const std::shared_ptr<strategy_state>& on,
                                  const std::string& mine,
                                  std::chrono::milliseconds join_timeout = {});

/// Calls `fn` in one process, the first, while the others wait for its end, no
/// longer than the callback timeout. What it throws is thrown in all, in the
/// others as a std::runtime_error.
void on_leader(const std::shared_ptr<strategy_state>& on,
               const std::function<void()>& fn);

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
