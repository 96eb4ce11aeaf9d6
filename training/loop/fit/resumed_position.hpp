#pragma once

#include "troupe/training/loop/model/model_state.hpp"

#include <cstdint>
#include <optional>

namespace troupe {

/// What the options of a resumed fit say about its position.
struct resume_request {
  std::optional<std::uint64_t> first_epoch{}; ///< As in `fit_options`.
  std::uint64_t epochs = 1;                   ///< As in `fit_options`.
  /// As in `fit_options`. None: the fit has no such option.
  std::optional<bool> accept_replicas{};
};

/// Returns the position at which a fit goes on that resumes another one.
/// @param last None: there is no fit that can be resumed.
/// @param begin position at which the fit would begin without `resume`.
/// @errors throws std::invalid_argument if there is no such fit, or if it is
///         complete and does not get more epochs. Throws it if the fit had
///         other data, replicas, shares, metrics or another first epoch.
fit_position resumed_position(const std::optional<fit_position>& last,
                              const fit_position& begin,
                              const resume_request& options);

} // namespace troupe
