#pragma once

#include "troupe/training/loop/model_state.hpp"

namespace troupe {

/// Checks before a fit that all replicas have the same weights
/// (equal_copies.hpp), and that all workers have the same model, data and
/// options.
/// @errors throws std::invalid_argument on all workers if a worker differs from
///         worker 0. The error names that worker and the difference. Throws
///         std::logic_error as `check_equal_copies`.
/// @cost the cost of `check_equal_copies`. In several processes also a SHA-256
///       of the optimizer's state, of the next batch, and of the first and the
///       last batch of the training data and of the validation data.
void verify_workers_match(const model_state& state,
                          const data::dataset& batches,
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
