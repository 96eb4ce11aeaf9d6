#pragma once

#include "troupe/actors/membership/peers/peer_table.hpp"
#include "troupe/actors/protocol/job_status.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// State of a job that its status shows, as one process knows it.
struct job_overview {
  std::shared_ptr<peer_table> peers;
  std::string job;                ///< Name of the job.
  std::vector<std::string> names; ///< Display names of the processes, by task.
  std::uint64_t incarnation = 0;  ///< Incarnation of this process.
  std::uint32_t task = 0;         ///< Task of this process.
};

/// Adds the processes of the job, its view and the last decisions to the status
/// of the active run. If no run is active, it also adds why the job waits: for
/// processes that have not joined, or for a view change.
void add_overview(const job_overview& overview, job_status& status);

/// Returns the vacant tasks of the job. The view in the answer is empty if this
/// process is no member of the job, or if the job has no later view.
membership::vacancies vacancies_of(const job_overview& overview);

/// Adds the last decisions that the events of a recorder show. Null: none.
void add_decisions(const std::shared_ptr<flight_recorder>& recorder,
                   job_status& status);

} // namespace troupe
