#pragma once

#include "troupe/training/parameter_server/parameter_server_strategy.hpp"

namespace troupe {

/// Lets `troupe status` show the servers of a strategy, if this process is a
/// node (node_server.hpp). A query waits at most a second for each server.
/// @errors throws std::logic_error if it was called before for the runtime of
///         the strategy.
void register_server_status(const parameter_server_strategy& strategy);

} // namespace troupe
