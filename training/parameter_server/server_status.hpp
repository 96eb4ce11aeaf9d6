#pragma once

#include "troupe/training/parameter_server/parameter_server_strategy.hpp"

namespace troupe {

/// Lets `troupe status` show the servers of a strategy, if this process is a
/// node (node_server.hpp). A query waits at most a second for each server.
/// After a further call for the same runtime, it shows the servers of the later
/// strategy.
void register_server_status(const parameter_server_strategy& strategy);

} // namespace troupe
