#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/node/client_options.hpp"

namespace troupe {

class runtime;

/// Asks the leader of a job for the status of the job, or a node for the
/// description of the node.
/// @param address "host:port"
/// @returns several printable lines for display.
/// @errors throws std::invalid_argument for a malformed address; what
///         `net::credentials_from_environment` throws, if the options give no
///         credentials; `job_error`: refused, peer_lost, unreachable, or the
///         code of the error that the leader or the node returned.
std::string query_status(runtime& local_runtime, const std::string& address,
                         const client_options& options = {});

} // namespace troupe
