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

/// What a group of actor replicas needs from outside: the actor system, the
/// other processes, and the parts that a simulator or a test replaces.
struct group_environment {
  caf::actor_system& system;
  /// Spawn policy of the replicas.
  spawn_policy replica_spawn_policy = spawn_policy::detached;
  /// How a thread that calls the group waits. Null: the thread blocks.
  std::shared_ptr<wait_strategy> caller_wait_strategy{};
  std::shared_ptr<fault_injector> faults{}; ///< Null: no faults are injected.
  /// True: tensor messages to replicas go through their mailboxes. False: these
  /// messages go through tensor queues.
  bool via_mailbox = false;
  /// The processes of the job. Null: the job has only this process.
  std::shared_ptr<const world> job_world{};
  /// In a job of one process: add the sums of tensors on the devices of the
  /// replicas. Null: the tensors of all sums are on the host.
  std::shared_ptr<nccl_ranks> ranks{};
  /// Called for each role after it has been spawned. Empty: not called.
  std::function<void(const role_id&, const caf::actor&)> on_spawn{};
};

/// Makes a group whose replicas are actors in the environment's actor system.
/// @errors throws std::invalid_argument for invalid options.
std::unique_ptr<replica_group>
make_replica_group(const group_environment& environment,
                   const replica_group_options& options);

} // namespace troupe
