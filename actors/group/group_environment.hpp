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

/// Where a crew of actors lives, and what a simulator or a test puts in its
/// way.
struct crew_place {
  caf::actor_system& system;
  threads on = threads::own;         ///< Of the replicas.
  std::shared_ptr<waiter> waiting{}; ///< Null: whoever calls the crew sleeps.
  std::shared_ptr<fault_seam> faults{}; ///< Null: none.
  bool by_mail = false; ///< Letters are messages of their own, not in a port.
  /// The processes of the job; null: this one is alone.
  std::shared_ptr<const company> with{};
  /// Told of each role as it is spawned.
  std::function<void(const party&, const caf::actor&)> on_spawn{};
};

/// @errors throws std::invalid_argument for options that make no sense.
std::unique_ptr<crew> make_crew(const crew_place& place,
                                const crew_options& options);

} // namespace troupe
