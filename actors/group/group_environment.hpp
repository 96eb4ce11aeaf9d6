#pragma once

#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/core/wait_strategy.hpp"
#include "troupe/actors/group/replica_group.hpp"
#include "troupe/actors/group/world.hpp"

#include <caf/actor.hpp>

#include <functional>
#include <memory>

namespace troupe {

/// Environment of a group whose replicas are actors: the actor system, the
/// other processes, and the parts that a simulator or a test replaces.
struct crew_place {
  caf::actor_system& system;
  threads on = threads::own; ///< Spawn policy of the replicas.
  /// Wait strategy of the threads that call the group. Null: they block.
  std::shared_ptr<waiter> waiting{};
  std::shared_ptr<fault_seam> faults{}; ///< Null: no faults are injected.
  /// True: tensor messages go through the roles' mailboxes. False: they go
  /// through tensor queues.
  bool by_mail = false;
  /// The processes of the job. Null: this is the only one.
  std::shared_ptr<const company> with{};
  /// Called with each role when it has been spawned. Empty: not called.
  std::function<void(const party&, const caf::actor&)> on_spawn{};
};

/// Makes a group whose replicas are actors in the environment's actor system.
/// @errors throws std::invalid_argument for invalid options.
std::unique_ptr<crew> make_crew(const crew_place& place,
                                const crew_options& options);

} // namespace troupe
