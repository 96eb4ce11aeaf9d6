#pragma once

#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/node/node.hpp"
#include "troupe/actors/protocol/job_status.hpp"

#include <caf/actor_addr.hpp>

namespace troupe {

/// The status service: answers status queries in the leader's process. The
/// messages below are sent only inside that process.
using status_service_actor = status_actor::extend<
  // Serves a new connection with the purpose "status".
  caf::reacts_to<client_ref>,
  // Sets the chief. The service asks the chief for the progress of the job.
  caf::reacts_to<caf::actor_addr>>;

/// State of the job that the status service reads.
struct status_view {
  std::shared_ptr<peer_table> peers;
  std::string job;                ///< Name of the job.
  std::vector<std::string> names; ///< Display names of the processes, by task.
  std::uint64_t incarnation = 0;  ///< Incarnation of the leader's process.
};

/// Spawns the actor that answers status queries about a job.
status_service_actor spawn_status_service(caf::actor_system& system,
                                          status_view view);

} // namespace troupe
