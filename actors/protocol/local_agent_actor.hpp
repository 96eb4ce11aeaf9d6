#pragma once

#include "troupe/actors/protocol/run_messages.hpp"

#include <caf/actor_addr.hpp>

#include <vector>

namespace troupe {

/// The replicas that a steward owns, and who speaks for the chief.
struct household_ref {
  office_actor chief;                  ///< A proxy.
  std::vector<replica_actor> replicas; ///< Of this process, by id.
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::household_ref)

namespace troupe {

/// STEWARD: stands for the chief in a process that it is not in.
using steward_actor = caf::typed_actor<
  // What replicas say to their owner, passed on.
  caf::reacts_to<commit::seated>, caf::reacts_to<commit::report>,
  caf::reacts_to<commit::failed>, caf::reacts_to<commit::blame>,
  // What the chief says to callers.
  caf::reacts_to<run_commits>, caf::reacts_to<run_ended>,
  caf::reacts_to<run_failed>,
  // What the crew here says to the chief.
  caf::reacts_to<muster::join, step_ref>, caf::reacts_to<run_heard>,
  caf::reacts_to<muster::stop>,
  // These are the roles.
  caf::reacts_to<household_ref>,
  // He brings what the chief says to callers; the last of it before he ends.
  caf::reacts_to<caf::actor_addr>>;

} // namespace troupe
