#pragma once

#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <functional>
#include <memory>
#include <string>

// The calls of a loop of one's own as calls of a job (job_call.hpp).

namespace troupe {

class replica_context;
class step_results;

/// Makes one step of a loop, in which `fn` is called for each replica, together
/// with the other processes of the job:
///
///   before   each process keeps the state (placement_observer::keep_state)
///   step     each replica calls `fn`, and then gathers the encoded results of
///            all replicas. When that gather is complete in a process, it has
///            made the step. With the results come hashes of the collectives
///            that `fn` has called. If they differ, all replicas gather the
///            calls too and throw std::logic_error that names the difference
///   on loss  a process that has made the step keeps its state and the results.
///            Others return to the state before. If a process has made the
///            step, they copy its state and results; else all make it anew
///   errors   an error of the step also leads back to the state before
///   audit    after each 100th step the copies of the models are compared
///            (copy_audit.hpp)
///   cost     one copy of the state in memory, and one gather of the results
/// In a job of one process, only calls `fn`. The random numbers of the step
/// depend on how many calls of this function have succeeded. They do not depend
/// on the step number of the group, which depends on the placement: `reduce`
/// runs a step of the group only in a job of several processes.
/// @param results stores what `fn` has returned.
/// @errors throws as `make_call`.
void make_step(const std::shared_ptr<strategy_state>& state,
               const std::function<void(replica_context&)>& fn,
               const std::shared_ptr<step_results>& results);

/// Makes a collective outside of a step: calls `fn` for each replica, and
/// returns its value, which must be equal on all replicas. `fn` must own what
/// it uses.
/// @param name as `job_call::name`.
/// @cost a gather of some bytes, and a copy of the value, for processes that do
///       not hear of the end of the call before another one is lost.
/// @errors throws as `make_call`. Throws std::logic_error if replicas call
///         different collectives, as `make_step`.
tensor make_collective(const std::shared_ptr<strategy_state>& state,
                       const std::string& name,
                       const std::function<tensor(replica_context&)>& fn);

} // namespace troupe
