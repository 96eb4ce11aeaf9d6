#pragma once

#include "troupe/actors/node/client_options.hpp"

namespace troupe {

class runtime;

/// Asks whoever listens there how he does: the leader of a job, or a node.
/// @param where "host:port"
/// @returns several lines, for people; all of them printable.
/// @errors as remote_node's.
std::string remote_status(runtime& in, const std::string& where,
                          const remote_options& options = {});

} // namespace troupe
