#pragma once

#include "troupe/training/loop/model/model_state.hpp"

#include <functional>

namespace troupe {

/// Calls `check`, which checks the arguments of a call before the workers
/// compare them. If it throws, the other workers, whose arguments may be right,
/// throw an error with the text in the comparison of that call.
/// @param call "fit" or "evaluate".
/// @errors rethrows what `check` has thrown, when the other workers have been
///         told. A process that joins tells them nothing.
void check_for_all_workers(const model_state& state, const char* call,
                           const std::function<void()>& check);

/// Checks before a fit that all replicas have the same weights
/// (equal_copies.hpp), and that all workers have the same model, data and
/// options. A worker that joins takes over how many updates the others have
/// made.
/// @errors throws std::invalid_argument on all workers if a worker differs from
///         worker 0. The error names that worker and the difference. Throws
///         std::logic_error as `check_equal_copies`.
/// @cost the cost of `check_equal_copies`. In several processes also a SHA-256
///       of the optimizer's state and of the next batch. Also one of the first
///       and the last batch of the training data and of the validation data.
void verify_workers_match(model_state& state, const data::dataset& batches,
                          const fit_options& options,
                          const fit_position& position);

/// Checks before an evaluation that all replicas have the same weights, and
/// that all workers have the same network, loss, data and metrics.
/// @errors as `verify_workers_match`.
/// @cost the cost of `check_equal_copies`. In several processes also a SHA-256
///       of the first and the last batch.
void verify_evaluations_match(const model_state& state,
                              const data::dataset& batches,
                              const metric_list& metrics);

} // namespace troupe
