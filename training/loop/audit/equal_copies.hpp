#pragma once

#include "troupe/training/loop/model/model_state.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Checks that all copies of each variable have the same values. The values
/// differ if a training loop applies gradients without reducing them over the
/// replicas, or with different learning rates. They also differ if the loop
/// writes a variable on some replicas only. No effect if all replicas of the
/// job share one copy. In a job of several processes every process must call
/// this function, and each call waits for the calls of the other processes.
/// @param call as `job_call::name`.
/// @param join_timeout maximum wait for the calls of the other processes. Zero:
///        the step timeout.
/// @errors throws std::logic_error on all workers. It names the first variable
///         whose copies differ, and the replicas that differ from the first
///         replica.
/// @cost in several processes: a SHA-256 of the parameters, and one step that
///       gathers the hashes.
void check_equal_copies(const model_state& state, const std::string& call,
                        std::chrono::milliseconds join_timeout = {});

/// Returns a text for `compare_copies`. The text contains a fingerprint of each
/// variable in each copy of this process. A fingerprint identifies the values
/// of one variable in one copy.
std::string describe_copies(const model_state& state);

/// Compares the fingerprints of the copies in all processes.
/// @param texts results of `describe_copies`, one from each process, by
///        process. Empty: the process has no values yet, because it joins.
/// @param names of these processes, in the error text.
/// @errors as `check_equal_copies`. Throws std::logic_error too if the
///         processes have models with different variables.
void compare_copies(const std::vector<std::string>& texts,
                    const std::vector<std::string>& names);

} // namespace troupe
