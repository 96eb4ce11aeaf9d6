#pragma once

#include "troupe/actors/membership/job_overview.hpp"
#include "troupe/actors/node/node.hpp"
#include "troupe/actors/protocol/status_actor.hpp"
#include "troupe/actors/protocol/vacancy_actor.hpp"

#include <caf/actor_addr.hpp>

namespace troupe {

/// The status service answers the queries of status clients and of spares in
/// every process of a job. So a client needs the address of any process. Unlike
/// the status, the vacant tasks are known in each process: no other role is
/// asked. The last two messages are sent only inside that process.
using status_service_actor = status_actor::extend<
  // As in `vacancy_actor`.
  caf::replies_to<atom::vacant>::with<membership::vacancies>,
  // Serves a new connection with the purpose "status" or "vacancies".
  caf::reacts_to<client_ref>,
  // Sets the chief, or the local agent, which asks the chief. The service asks
  // it for the progress of the job.
  caf::reacts_to<caf::actor_addr>>;

/// Spawns the actor that answers status queries about a job.
status_service_actor spawn_status_service(caf::actor_system& system,
                                          job_overview overview);

} // namespace troupe
