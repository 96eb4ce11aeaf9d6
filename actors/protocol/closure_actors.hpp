#pragma once

#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/closure.hpp"
#include "troupe/strategies/coordinator/messages.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

// Messages between a closure scheduler and its workers.

namespace troupe {

/// The messages that a closure worker receives.
using closure_worker_actor = caf::typed_actor<
  // Executes a closure.
  caf::reacts_to<coordinator::run, shared_closure>,
  // Stops an execution.
  caf::reacts_to<coordinator::cancel>,
  // Begins the next execution.
  caf::reacts_to<atom::next>>;

/// A worker that joins.
struct new_worker {
  /// Identifies the actor. Unlike the number that closures see, it is never
  /// used again.
  std::uint64_t id = 0;
  std::uint32_t places = 1; ///< Closures that it has at once.
  closure_worker_actor worker;
};

/// The messages of a worker to its owner, with the id of the worker.
using closure_worker_owner_actor = caf::typed_actor<
  // An execution reports something to the listener of its closure.
  caf::reacts_to<std::uint64_t, coordinator::execution, tensors>,
  // An execution has ended. Its result.
  caf::reacts_to<std::uint64_t, coordinator::ended, coordinator::payload>,
  // An execution has thrown.
  caf::reacts_to<std::uint64_t, coordinator::failed, closure_failure>,
  // An execution was stopped.
  caf::reacts_to<std::uint64_t, coordinator::stopped>>;

/// The messages that a closure scheduler receives.
using closure_scheduler_actor = closure_worker_owner_actor::extend<
  // Adds a closure.
  caf::reacts_to<shared_closure>,
  // Adds a worker.
  caf::reacts_to<new_worker>,
  // Removes a worker. Its closures are executed by others.
  caf::reacts_to<atom::stop, std::uint64_t>,
  // The error was reported: the scheduler accepts closures again.
  caf::reacts_to<atom::resume>>;

// -- between processes --------------------------------------------------------

/// An execution of a registered closure on a node.
struct remote_run {
  coordinator::run run;
  std::string closure_name;
  std::uint32_t num_inputs = 0;
  auto fields() { return std::tie(run, closure_name, num_inputs); }
};

/// What a coordinator wants of a worker on a node. The inputs of all closures
/// travel beside it, in the order of `runs`.
struct remote_work {
  std::vector<remote_run> runs; ///< Runs to begin.
  /// Executions to stop, after `runs`.
  std::vector<coordinator::execution> cancelled;
  /// The coordinator has the results of these executions, which the worker has
  /// kept.
  std::vector<coordinator::execution> fetched;
  auto fields() { return std::tie(runs, cancelled, fetched); }
};

/// An execution on a node has ended without an error.
struct remote_end {
  coordinator::ended end;
  std::uint32_t num_results = 0; ///< Beside the message.
  /// The worker keeps the results until they are fetched, as they are large.
  bool is_kept = false;
  auto fields() { return std::tie(end, num_results, is_kept); }
};

/// An execution on a node has thrown, or could not begin.
struct remote_failure {
  coordinator::execution execution;
  std::string text; ///< Text for people.
  auto fields() { return std::tie(execution, text); }
};

/// A report of an execution on a node.
struct remote_report {
  coordinator::execution execution;
  std::uint32_t num_tensors = 0; ///< Beside the message.
  auto fields() { return std::tie(execution, num_tensors); }
};

/// What has become of executions on a node, each of which is in one message,
/// and what they have reported before. Beside it travel the tensors of
/// `reports`, and then the results of `ended`.
struct remote_ends {
  std::vector<remote_report> reports{};
  std::vector<remote_end> ended{};
  std::vector<remote_failure> failed{};
  std::vector<coordinator::stopped> stopped{};
  auto fields() { return std::tie(reports, ended, failed, stopped); }
};

/// A worker on a node, which executes closures that are registered there.
using remote_closure_worker_actor = caf::typed_actor<
  // A long poll, which begins and stops executions, or none. The worker answers
  // when executions have ended or reported, when another poll or large inputs
  // have arrived, or after `poll_timeout`. But while the worker sends results
  // that are fetched, it answers only when they are in `remote_work::fetched`.
  // The coordinator keeps a poll open while executions have not ended. Errors:
  //   refused    the worker cannot execute closures
  //   protocol   more executions than `max_executions_on_node`, or another
  //   number
  //              of inputs than that of `runs`
  caf::replies_to<remote_work, tensors>::with<remote_ends, tensors>,
  // Returns the results of an execution that the worker keeps. Error
  // `protocol`: it keeps none.
  caf::replies_to<atom::results, coordinator::execution>::with<tensors>,
  // Returns the names of the closures when the worker can execute them. Error
  // `refused`: it cannot.
  caf::replies_to<atom::info>::with<std::vector<std::string>>>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::shared_closure)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::closure_failure)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::new_worker)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::coordinator::payload)
