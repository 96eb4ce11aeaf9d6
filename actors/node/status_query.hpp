#pragma once

#include "troupe/actors/node/client_options.hpp"

namespace troupe {

class runtime;

/// Asks the leader of a job, or a node, for its status.
/// @param where "host:port"
/// @returns several printable lines for display.
/// @errors throws std::invalid_argument for a malformed address; what
///         `net::credentials_from_environment` throws, if the options give no
///         credentials; `job_error`: refused, peer_lost, unreachable, or the
///         code of the error that the actor returned.
std::string remote_status(runtime& in, const std::string& where,
                          const remote_options& options = {});

} // namespace troupe
