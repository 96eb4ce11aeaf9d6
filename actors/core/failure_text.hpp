#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/strategies/failure_report.hpp"
#include "troupe/strategies/placement.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
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

/// A replica or a process that others wait for.
struct missing_role {
  static constexpr auto none = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t replica = none; ///< Id of the replica. `none`: the process.
  std::string process;          ///< Name of its process.
  /// What waits for it, such as "the sum of bucket 3", or what it does itself
  /// if nothing is known to wait: "its step function".
  std::string operation;
  /// Bucket of that collective. `none`: another wait.
  std::uint32_t bucket = none;
  bool responds = true;       ///< False: it did not answer the probe.
  std::uint64_t since_ms = 0; ///< Milliseconds since the last progress.
  auto fields() {
    return std::tie(replica, process, operation, bucket, responds, since_ms);
  }
  friend bool operator==(const missing_role&, const missing_role&) = default;
};

/// Returns the replicas and processes that the report says others wait for.
/// @param since_ms is copied to each of them.
std::vector<missing_role> missing_roles(const failure_report& report,
                                        const named_processes& processes,
                                        std::uint64_t since_ms);

/// Returns "step 7", or "evaluate (operation 7)" if the step is an operation of
/// a call that the user does not count.
/// @param operation as `failure_report::operation`.
std::string step_name(const std::string& operation, std::uint64_t step);

/// Lists replicas for people: "replica 1" or "replicas 1, 3".
std::string replica_list(std::span<const std::uint32_t> ids);

/// Returns the sentence for people that says what happened: "worker 1 was lost
/// in step 7: the peer has closed the connection; replica 0 waits for the sum
/// of bucket 2, still missing replica 1". Replicas are named with their process
/// if the job has several processes. A process or replica that is not in
/// `processes` is named by its number.
std::string describe(const failure_report& report,
                     const named_processes& processes);

/// Makes the exception for a failure. Its text is the sentence. Control
/// characters in the texts of the report are replaced, because the texts may
/// come from another process.
job_error to_job_error(failure_report report, const named_processes& processes);

} // namespace troupe
