#pragma once

#include "troupe/training/job/job.hpp"

#include <string>

namespace troupe {

/// Sets strategy, devices, replicas, workers, transport, servers and
/// consistency of `out`.
void resolve_placement(const train_options& options, train_config& out);

/// Returns the strategy that the options name or imply.
std::string implied_strategy(const train_options& options);

/// Reads the text of --consistency.
/// @errors throws std::invalid_argument for another one.
parameter_server::consistency parse_consistency(const std::string& text);

} // namespace troupe
