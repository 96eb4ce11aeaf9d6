#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/training/strategies/replica/communication.hpp"

namespace troupe {

/// Returns the algorithm that `implementation` selects. If `implementation` is
/// automatic, returns `default_algorithm`.
collective_options::algorithm_kind
algorithm_of(communication_options::implementations implementation,
             collective_options::algorithm_kind default_algorithm =
               collective_options::algorithm_kind::tree);

/// Converts the options of a call to the options of each collective in the
/// call.
collective_options
to_collective_options(const call_options& options,
                      collective_options::algorithm_kind default_algorithm);

} // namespace troupe
