#pragma once

#include "troupe/training/loop/model_state.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Whether all replicas hold the same values of each variable. They differ if a
/// training loop applies gradients that were not summed over the replicas. Over
/// several processes all of them call it; each waits for the others.
/// @param join_timeout longest wait for the others to call it; zero: the
///                     patience.
/// @errors throws std::logic_error, on all workers, that names the first
///         variable whose copies differ, and the replicas.
/// @cost   in one process a comparison of memory; over several a SHA-256 of the
///         parameters and one small step.
void check_equal_copies(const model_state& it,
                        std::chrono::milliseconds join_timeout = {});

/// What a process tells the others of its copies: a fingerprint of each.
std::string copies_here(const model_state& it);

/// Compares what the processes told of their copies, by process.
/// @errors as `check_equal_copies`.
void compare_copies(const std::vector<std::string>& told);

} // namespace troupe
