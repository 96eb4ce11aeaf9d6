#pragma once

#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/strategies/membership/messages.hpp"

#include <caf/typed_actor.hpp>

namespace troupe {

/// Answers queries of the vacant tasks of a job. Every process of the job
/// serves this role on channel 1 of each connection with the purpose
/// "vacancies".
using vacancy_actor =
  caf::typed_actor<caf::replies_to<atom::vacant>::with<membership::vacancies>>;

} // namespace troupe
