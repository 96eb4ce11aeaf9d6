#pragma once

#include "troupe/actors/protocol/run_messages.hpp"

#include <caf/actor_addr.hpp>

#include <vector>

namespace troupe {

/// The roles that a local agent works with.
struct local_roles {
  chief_remote_actor chief; ///< A proxy of the chief.
  /// The replicas of this process in order of id. The local agent owns them.
  std::vector<replica_actor> replicas;
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::local_roles)

namespace troupe {

/// The local agent, which represents the chief in a process without the chief.
using local_agent_actor = caf::typed_actor<
  // Messages that the replicas send and the local agent forwards to the chief.
  caf::reacts_to<step_commit::configured>,
  caf::reacts_to<step_commit::step_done>, caf::reacts_to<step_commit::failed>,
  caf::reacts_to<step_commit::wait_report>,
  // Messages that the chief sends. The local agent passes them to the caller of
  // the run.
  caf::reacts_to<commit_batch>, caf::reacts_to<run_completed>,
  caf::reacts_to<run_aborted>,
  // Messages that the replica group of this process sends. The local agent
  // forwards them to the chief.
  caf::reacts_to<run_barrier::join, step_function_ref>,
  caf::reacts_to<commit_ack>, caf::reacts_to<run_barrier::stop>,
  caf::replies_to<atom::status>::with<job_status>,
  // Sets the roles.
  caf::reacts_to<local_roles>,
  // Sets the skeleton through which the chief's messages arrive. When the
  // skeleton terminates, it has delivered every message of the chief.
  caf::reacts_to<caf::actor_addr>>;

} // namespace troupe
