#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/training/strategies/communication.hpp"

namespace troupe {

/// Returns the algorithm that `implementation` selects; `default_algorithm` if
/// that is automatic.
terms::ways way_of(communication_options::implementations x,
                   terms::ways usual = terms::ways::tree);

/// Converts the options of a call for the collectives that the call makes.
terms terms_of(const call_options& x, terms::ways usual);

} // namespace troupe
