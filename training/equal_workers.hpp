#pragma once

#include "troupe/training/model_state.hpp"

namespace troupe {

/// Before a fit: whether all workers begin with the same weights and mean the
/// same. Nothing in one process.
/// @errors throws std::invalid_argument, on all workers, that names one that
///         differs and how.
/// @cost   a hash of the weights and of the first batch, and one small step.
void check_equal_workers(const model_state& it, const data::dataset& batches,
                         const fit_options& options, const fit_position& at);

} // namespace troupe
