#pragma once

#include "troupe/actors/node/client_options.hpp"
#include "troupe/actors/protocol/shard_copy_actor.hpp"
#include "troupe/actors/shard/host_connector.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// Hosts of shards, in this process and in others, and connections to them.

namespace troupe {

class runtime;

/// Registers the roles of a parameter server: a host of all copies of a job in
/// this process, and access to it.
/// @param to_servers options of connections to other processes with copies.
/// @param before_answer as in `shard_host_config`.
void register_shard_host(runtime& actors, const client_options& to_servers,
                         const std::function<void()>& before_answer);

/// Makes a host for each shard in this process, on a thread of its own. The
/// address in its link is a name that `connect_local_hosts` knows.
/// @param max_bytes of each server. Zero: no limit.
std::vector<host_link> make_local_hosts(caf::actor_system& system,
                                        std::uint32_t shards,
                                        std::uint64_t max_bytes);

/// Connects to the hosts of `make_local_hosts`, and does not keep them alive.
host_connector connect_local_hosts(const std::vector<host_link>& hosts);

/// Makes the host of a job in the process at an address. It ends with the
/// connection.
/// @param shards    of the job.
/// @param max_bytes of each server. Zero: no limit.
/// @errors throws what `remote_node` and its `spawn` throw.
host_link make_shard_host(runtime& actors, const std::string& address,
                          const client_options& options, const std::string& job,
                          std::uint32_t shards, std::uint64_t max_bytes);

/// Makes the hosts of a job in other processes, as `make_shard_host` does.
/// @pre the runtime outlives the actors that use it.
host_connector make_shard_hosts(runtime& actors, const client_options& options,
                                const std::string& job, std::uint32_t shards,
                                std::uint64_t max_bytes);

/// Connects to hosts that another process has made.
/// @pre the runtime outlives the actors that use it.
host_connector connect_shard_hosts(runtime& actors,
                                   const client_options& options,
                                   const std::string& job);

} // namespace troupe
