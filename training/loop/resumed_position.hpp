#pragma once

#include "troupe/training/loop/model_state.hpp"

#include <cstdint>
#include <optional>

namespace troupe {

/// Returns the position at which a fit goes on that resumes another one.
/// @param last None: there is no fit that can be resumed.
/// @param begin position at which the fit would begin without `resume`.
/// @param first_epoch as in `fit_options`.
/// @param epochs as in `fit_options`.
/// @errors throws std::invalid_argument if there is no such fit, if it is
///         complete and does not get more epochs, or if it had other data,
///         replicas, shares, metrics or another first epoch.
fit_position resumed_position(const std::optional<fit_position>& last,
                              const fit_position& begin,
                              std::optional<std::uint64_t> first_epoch,
                              std::uint64_t epochs);

/// For the library's own use. Lets an interrupted fit be resumed with another
/// number of replicas, and with other shares. The weights then have other bits
/// than those of an uninterrupted fit. No effect if no fit was interrupted.
void accept_replicas(model_state& state, std::uint32_t replicas,
                     const std::vector<std::uint32_t>& replica_shares);

} // namespace troupe
