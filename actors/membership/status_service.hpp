#pragma once

#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/node/node.hpp"
#include "troupe/actors/protocol/job_status.hpp"

#include <caf/actor_addr.hpp>

namespace troupe {

/// STATUS SERVICE: answers status queries in the leader's process. The private
/// messages come from that process.
using reporter_actor = status_actor::extend<
  // Serves a new connection with the purpose "status".
  caf::reacts_to<guest_ref>,
  // Names the chief that knows the progress of the job.
  caf::reacts_to<caf::actor_addr>>;

/// State of the job that the status service reads.
struct reporter_view {
  std::shared_ptr<hall> in;
  std::string job;                ///< Name of the job.
  std::vector<std::string> names; ///< Display names of the processes, by task.
  std::uint64_t incarnation = 0;  ///< Incarnation of the leader's process.
};

/// Spawns the actor that answers status queries about a job.
reporter_actor spawn_reporter(caf::actor_system& in, reporter_view of);

} // namespace troupe
