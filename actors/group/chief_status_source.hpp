#pragma once

#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/group/job_status_source.hpp"

#include <caf/actor_addr.hpp>
#include <caf/actor_system.hpp>

namespace troupe {

/// Asks the chief of a replica group, directly or through the local agent.
class chief_status_source final : public job_status_source {
public:
  /// @param system      must outlive this object.
  /// @param run_service the chief or the local agent of this process.
  /// @param processes   processes of the group; process 0 has the chief.
  chief_status_source(caf::actor_system& system, caf::actor_addr run_service,
                      named_processes processes);

  job_status status(std::chrono::milliseconds timeout) override;

private:
  caf::actor_system& system_;
  const caf::actor_addr run_service_; ///< Weak.
  const named_processes processes_;
};

/// Returns the status of a job whose chief has not answered for `timeout`.
job_status status_without_chief(const named_processes& processes,
                                std::chrono::milliseconds timeout);

} // namespace troupe
