#pragma once

#include "troupe/actors/protocol/job_status.hpp"
#include "troupe/actors/protocol/run_messages.hpp"

#include <memory>
#include <vector>

namespace troupe {

/// The run client of one process. Exactly one of the two members is set.
struct run_client {
  std::shared_ptr<run_listener> listener; ///< In the chief's process.
  run_client_actor remote;                ///< In another process.
};

/// The roles of a job, which the chief owns, and its run clients.
struct job_roles {
  std::vector<replica_actor> replicas; ///< Indexed by replica id.
  std::vector<reducer_actor> reducers; ///< Indexed by reducer id.
  std::vector<run_client> clients;     ///< Indexed by process.
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::job_roles)

namespace troupe {

/// The chief, which owns the job.
using chief_actor = chief_remote_actor::extend<
  // Sets the roles of the job. The chief monitors and configures them.
  caf::reacts_to<job_roles>,
  // Joins a run, from the process of the chief, with the step function.
  caf::reacts_to<run_barrier::join, step_function_ref>,
  // Returns the status of the job. The receiver of the response fills in the
  // members.
  caf::replies_to<atom::status>::with<job_status>>;

} // namespace troupe
