#pragma once

#include "troupe/actors/protocol/run_messages.hpp"

#include <caf/actor_addr.hpp>

#include <vector>

namespace troupe {

/// The roles that a local agent works with.
struct household_ref {
  office_actor chief; ///< A proxy of the chief.
  /// The replicas of this process, which the local agent owns, in order of id.
  std::vector<replica_actor> replicas;
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::household_ref)

namespace troupe {

/// The local agent, which represents the chief in a process without the chief.
using steward_actor = caf::typed_actor<
  // Messages of the replicas to their owner, forwarded to the chief.
  caf::reacts_to<commit::seated>, caf::reacts_to<commit::report>,
  caf::reacts_to<commit::failed>, caf::reacts_to<commit::blame>,
  // Messages of the chief to the run client.
  caf::reacts_to<run_commits>, caf::reacts_to<run_ended>,
  caf::reacts_to<run_failed>,
  // Messages of the replica group of this process to the chief.
  caf::reacts_to<muster::join, step_ref>, caf::reacts_to<run_heard>,
  caf::reacts_to<muster::stop>,
  // Sets the roles.
  caf::reacts_to<household_ref>,
  // Sets the skeleton through which the chief's messages arrive. When it
  // terminates, every message of the chief has been delivered.
  caf::reacts_to<caf::actor_addr>>;

} // namespace troupe
