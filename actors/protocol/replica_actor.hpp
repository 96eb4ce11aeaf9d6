#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/strategies/step_commit/state_machine.hpp"
#include "troupe/strategies/tree/reduction.hpp"

#include <caf/typed_actor.hpp>

namespace troupe {

/// OWNER: what replicas and reducers may say to the chief.
using owner_actor = caf::typed_actor<
  // The replica has left all steps of older epochs.
  caf::reacts_to<commit::seated>,
  // The replica is through a step, its sums and its update.
  caf::reacts_to<commit::report>,
  // The replica cannot go on.
  caf::reacts_to<commit::failed>,
  // An answer to a probe.
  caf::reacts_to<commit::blame>>;

/// ADDER: what a replica may say to whoever adds a bucket.
using adder_actor = caf::typed_actor<
  // A replica's part of a sum; the room for it, or an empty handle.
  caf::reacts_to<tree::part, tensor, tensor>,
  // The chief asks what is missing for a step; blame comes back.
  caf::reacts_to<commit::probe>>;

/// REPLICA: what its chief, its peers and adders may say.
using replica_actor = adder_actor::extend<
  // A newer epoch: leave what you are in, then say so.
  caf::reacts_to<commit::seat>,
  // Steps to run, and the function.
  caf::reacts_to<commit::order, step_ref>,
  // More steps may be run.
  caf::reacts_to<commit::grant>,
  // The sum of a slice of a bucket.
  caf::reacts_to<tree::sum, tensor>,
  // Another replica's part of a gather.
  caf::reacts_to<tree::share, tensor>,
  // Something to call outside any step.
  caf::reacts_to<visit_ref>>;

/// REDUCER: an adder that is nothing else.
using reducer_actor = adder_actor;

} // namespace troupe
