#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/node/client_options.hpp"

namespace troupe {

class runtime;

/// Asks a process of a job for the status of the job, or a chief for the status
/// of its parameter servers. A node returns its description. Blocks for at most
/// seven times `connect_timeout`.
/// @param address "host:port", of any process of the job
/// @returns several printable lines for display.
/// @errors throws std::invalid_argument for a malformed address; what
///         `net::credentials_from_environment` throws, if the options give no
///         credentials; `job_error`: refused, peer_lost, unreachable, or the
///         code of the error that the process or the node returned.
std::string query_status(runtime& local_runtime, const std::string& address,
                         const client_options& options = {});

} // namespace troupe
