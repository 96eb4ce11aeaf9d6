#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/strategies/failure_report.hpp"
#include "troupe/strategies/placement.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

// The only place that makes sentences of reports. A text that comes with a
// failure, such as that of an exception or of a rejection, is the `cause` of
// its report.

namespace troupe {

/// The processes of a job, with their names for texts. Process 0 is the leader.
struct named_processes {
  /// Names of the processes, such as "chief 0" and "worker 1".
  std::vector<std::string> names{"this process"};
  troupe::placement placement{1};
  std::string job{};                    ///< Name of the job.
  std::vector<std::string> addresses{}; ///< Addresses of the processes.
  std::uint32_t self = 0;               ///< This process.
};

/// Lists replicas for people: "replica 1" or "replicas 1, 3".
std::string replica_list(std::span<const std::uint32_t> ids);

/// Returns the sentence for people that says what happened, such as "worker 1
/// was lost in step 7: the peer has closed the connection; replica 0 waits for
/// the sum of bucket 2, still missing replica 1". Replicas are named with their
/// process if the job has several processes. A process or replica that is not
/// in `processes` is named by its number.
std::string describe(const failure_report& report,
                     const named_processes& processes);

/// Makes the exception for a failure. Its text is the sentence. Control
/// characters in the texts of the report are replaced, because the texts may
/// come from another process.
job_error to_job_error(failure_report report, const named_processes& processes);

} // namespace troupe
