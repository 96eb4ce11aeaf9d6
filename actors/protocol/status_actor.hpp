#pragma once

#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/job_status.hpp"

#include <caf/typed_actor.hpp>

namespace troupe {

/// Answers queries of the status of a job. Every process of the job serves this
/// role on channel 1 of each connection with the purpose "status".
using status_actor =
  caf::typed_actor<caf::replies_to<atom::status>::with<job_status>>;

} // namespace troupe
