#pragma once

#include "troupe/training/strategies/strategy_state.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// Collectives of the processes of a job over values of the host, such as texts.

namespace troupe {

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

} // namespace troupe
