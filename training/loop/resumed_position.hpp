#pragma once

#include "troupe/training/loop/model_state.hpp"

#include <cstdint>
#include <optional>

namespace troupe {

/// Returns the position at which a fit goes on that resumes an interrupted one.
/// @param interrupted None: no fit was interrupted.
/// @param begin position at which the fit would begin without `resume`.
/// @param first_epoch as in `fit_options`.
/// @errors throws std::invalid_argument if no fit was interrupted, or if it had
///         other data, replicas, shares, metrics or another first epoch.
fit_position resumed_position(const std::optional<fit_position>& interrupted,
                              const fit_position& begin,
                              std::optional<std::uint64_t> first_epoch);

} // namespace troupe
