#pragma once

#include "troupe/training/loop/model_state.hpp"

namespace troupe {

/// Checks before a fit that all replicas have the same weights
/// (equal_copies.hpp), and that all workers have the same model, data and
/// options.
/// @errors throws std::invalid_argument, on all workers, that names a worker
///         that differs and the difference; std::logic_error as
///         `check_equal_copies`.
/// @cost as `check_equal_copies`; in several processes also a hash of the
///       optimizer's state and of the first batch.
void verify_workers_match(const model_state& state,
                          const data::dataset& batches,
                          const fit_options& options,
                          const fit_position& position);

} // namespace troupe
