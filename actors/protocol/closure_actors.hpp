#pragma once

#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/closure.hpp"
#include "troupe/strategies/coordinator/messages.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <string>
#include <vector>

// Messages between a closure scheduler and its workers. Within a process.

namespace troupe {

/// The messages that a closure worker receives.
using closure_worker_actor = caf::typed_actor<
  // Executes a closure.
  caf::reacts_to<coordinator::run, shared_closure>,
  // Stops an execution.
  caf::reacts_to<coordinator::cancel>,
  // Begins the next execution.
  caf::reacts_to<atom::next>,
  // Sends requests again that a busy shard has rejected.
  caf::reacts_to<atom::wake>>;

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
  caf::reacts_to<atom::resume>,
  // Sends decisions again that a busy shard has rejected.
  caf::reacts_to<atom::wake>>;

/// A worker on a node, which executes closures that are registered there. An
/// execution is a request with the name of the closure and its inputs. Errors
/// of the answer:
///   invalid    the closure has thrown, or there is none of this name
///   cancelled  the execution was stopped
using remote_closure_worker_actor =
  caf::typed_actor<caf::replies_to<coordinator::run, std::string,
                                   tensors>::with<coordinator::ended, tensors>,
                   caf::reacts_to<coordinator::cancel>,
                   // Returns the names of the closures when the worker can
                   // execute them. Error `ec::refused`: it cannot.
                   caf::replies_to<atom::info>::with<std::vector<std::string>>>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::shared_closure)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::closure_failure)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::new_worker)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::coordinator::payload)
