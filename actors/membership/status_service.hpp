#pragma once

#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/node/node.hpp"
#include "troupe/actors/protocol/job_status.hpp"

#include <caf/actor_addr.hpp>

namespace troupe {

/// What the leader's process tells its reporter.
using reporter_actor = status_actor::extend<
  // Somebody who asks came in.
  caf::reacts_to<guest_ref>,
  // The chief of the job's crew is this one.
  caf::reacts_to<caf::actor_addr>>;

/// What the reporter looks at.
struct reporter_view {
  std::shared_ptr<hall> in;
  std::string job;
  std::vector<std::string> names; ///< Of the processes.
  std::uint64_t incarnation = 0;  ///< The leader's own.
};

/// Answers who asks the leader of a job how it does.
reporter_actor spawn_reporter(caf::actor_system& in, reporter_view of);

} // namespace troupe
