#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/strategies/step_commit/state_machine.hpp"
#include "troupe/strategies/tree/reduction.hpp"

#include <caf/typed_actor.hpp>

namespace troupe {

/// The owner of replicas and reducers: the chief in the chief's process, the
/// local agent in any other process.
using replica_owner_actor = caf::typed_actor<
  // A replica has left all steps of older generations.
  caf::reacts_to<step_commit::configured>,
  // A replica has completed a step with its sums and its update.
  caf::reacts_to<step_commit::step_done>,
  // A replica or a reducer cannot continue.
  caf::reacts_to<step_commit::failed>,
  // A replica or a reducer answers a probe.
  caf::reacts_to<step_commit::wait_report>>;

/// A role that reduces slices of buckets: a replica or a reducer actor.
using slice_reducer_actor = caf::typed_actor<
  // A replica contributes to a sum. The first tensor is the contribution. The
  // second tensor receives the sum. At most one replica supplies it; the other
  // replicas send an empty tensor.
  caf::reacts_to<tree::contribution, tensor, tensor>,
  // Asks which inputs of a step this role still waits for. The role answers its
  // owner with a wait report.
  caf::reacts_to<step_commit::probe>>;

/// The messages that a replica receives from its owner, the other replicas, the
/// reducers and the replica group.
using replica_actor = slice_reducer_actor::extend<
  // Begins a newer generation. The replica abandons its step and then answers
  // with `configured`.
  caf::reacts_to<step_commit::configure>,
  // Starts the steps of a run with the given step function.
  caf::reacts_to<step_commit::start_steps, step_function_ref>,
  // Permits the replica to run all steps below a number.
  caf::reacts_to<step_commit::grant>,
  // Delivers the sum of a slice of a bucket.
  caf::reacts_to<tree::reduced_slice, tensor>,
  // Delivers another replica's contribution to a gather.
  caf::reacts_to<tree::gather_contribution, tensor>,
  // Calls a function outside any step.
  caf::reacts_to<replica_task>>;

/// A reducer actor, which reduces slices and has no other task.
using reducer_actor = slice_reducer_actor;

} // namespace troupe
