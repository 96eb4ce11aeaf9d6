#pragma once

#include "troupe/actors/protocol/run_messages.hpp"

#include <memory>
#include <vector>

namespace troupe {

/// Each process has one run client, which receives the chief's notifications
/// about runs. Exactly one of the two members is set.
struct run_client {
  std::shared_ptr<run_listener> listener; ///< Set for the chief's own process.
  run_client_actor remote; ///< Set for another process: its local agent.
};

/// The roles of a job, and the run client of each process.
struct job_roles {
  std::vector<replica_actor> replicas; ///< Indexed by replica id.
  std::vector<reducer_actor> reducers; ///< Indexed by reducer id.
  std::vector<run_client> clients;     ///< Indexed by process number.
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::job_roles)

namespace troupe {

/// The chief, which owns the job.
using chief_actor = chief_remote_actor::extend<
  // Sets the roles of the job. The chief monitors and configures them.
  caf::reacts_to<job_roles>,
  // The replica group in the chief's process joins a run with its step
  // function.
  caf::reacts_to<run_barrier::join, step_function_ref>>;

} // namespace troupe
