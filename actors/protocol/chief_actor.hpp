#pragma once

#include "troupe/actors/protocol/job_status.hpp"
#include "troupe/actors/protocol/run_messages.hpp"

#include <memory>
#include <vector>

namespace troupe {

/// Who hears of the work in a process: a listener here, or a steward elsewhere.
struct caller_ref {
  std::shared_ptr<work_listener> here;
  caller_actor there;
};

/// The roles that a chief owns, and the callers that it serves.
struct cast_ref {
  std::vector<replica_actor> replicas;
  std::vector<reducer_actor> reducers;
  std::vector<caller_ref> callers; ///< By process.
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::cast_ref)

namespace troupe {

/// CHIEF: owner of the job.
using chief_actor = office_actor::extend<
  // These are the roles; from now on they are watched, and seated.
  caf::reacts_to<cast_ref>,
  // As a join, from this process.
  caf::reacts_to<muster::join, step_ref>,
  // How the work does; the members are for others to fill in.
  caf::replies_to<atom::status>::with<job_status>>;

} // namespace troupe
