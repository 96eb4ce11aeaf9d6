#pragma once

#include "troupe/training/loop/model_state.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Checks that all replicas hold the same values of each variable. They differ
/// if a training loop applies gradients that were not reduced over the
/// replicas. In a job of several processes all of them must call it; each waits
/// for the others.
/// @param join_timeout timeout of the wait for the others to call it. Zero: the
///             step timeout.
/// @errors throws std::logic_error, on all workers, that names the first
///         variable whose copies differ, and the replicas.
/// @cost in one process a comparison of memory; in several a SHA-256 of the
///       parameters and one small step.
void check_equal_copies(const model_state& state,
                        std::chrono::milliseconds join_timeout = {});

/// Returns a fingerprint of each copy in this process, as a text for the other
/// processes.
std::string describe_copies(const model_state& state);

/// Compares the fingerprints of all processes.
/// @param texts those of `describe_copies`, by process.
/// @errors as `check_equal_copies`.
void compare_copies(const std::vector<std::string>& texts);

} // namespace troupe
