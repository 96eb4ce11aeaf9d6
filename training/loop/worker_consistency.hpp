#pragma once

#include "troupe/training/loop/model_state.hpp"

namespace troupe {

/// Before a fit: whether all replicas begin with the same weights
/// (equal_copies.hpp), and whether all workers mean the same.
/// @errors throws std::invalid_argument, on all workers, that names one that
///         differs and how; std::logic_error as `check_equal_copies`.
/// @cost   as `check_equal_copies`; over several processes a hash of the
///         optimizer's state and of the first batch too.
void check_equal_workers(const model_state& it, const data::dataset& batches,
                         const fit_options& options, const fit_position& at);

} // namespace troupe
