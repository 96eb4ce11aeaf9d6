#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/training/strategies/communication.hpp"

namespace troupe {

/// How sums are made where nothing else is said.
terms::ways way_of(communication_options::implementations x,
                   terms::ways usual = terms::ways::tree);

/// What a call says to the exchanges that it makes.
terms terms_of(const call_options& x, terms::ways usual);

} // namespace troupe
