#pragma once

#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/flight/decision.hpp"
#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <iosfwd>
#include <string>
#include <tuple>
#include <vector>

// The status of a job, which `strategy::explain` returns and `troupe status`
// shows. This header does not depend on CAF.

namespace troupe {

/// State of a process of a job. The numbers are a wire format: append, never
/// reuse.
enum class member_state : std::uint8_t {
  joining = 0,     ///< The process has connected; the job has not begun.
  active = 1,      ///< The process takes part in the job.
  unreachable = 2, ///< The process is silent; it may be alive.
  lost = 3,        ///< The process is known to have terminated.
  left = 4,        ///< The process has left by `cluster::leave`.
  absent = 5,      ///< The process has not connected yet.
};

/// Returns the state as `troupe status` prints it; "?" if it is unknown.
std::string to_string(member_state x);

/// Status of a process of a job.
struct member_status {
  std::string name; ///< Name of the process, such as "worker 1".
  /// Random number that identifies one life of the process. Zero: the process
  /// has not connected.
  std::uint64_t incarnation = 0;
  /// Milliseconds since the last frame from the process, heartbeats included.
  std::uint64_t since_contact_ms = 0;
  member_state state = member_state::joining;
  auto fields() { return std::tie(name, incarnation, since_contact_ms, state); }
};

/// Status of a job: how far it is, and why its next step is not done.
struct job_status {
  std::string job; ///< Name of the job.
  /// Processes of the job, indexed by task. Empty: the job has one process.
  std::vector<member_status> members;
  /// Generation of the chief: number of the attempt to run steps, which the
  /// chief increments. Zero: no generation has begun.
  std::uint64_t generation = 0;
  /// First step that is not committed, as the program counts. If `operation` is
  /// not empty: number of the operation in the group.
  std::uint64_t step = 0;
  double steps_per_second = 0; ///< Mean rate of the last `window_ms`.
  /// Milliseconds over which `steps_per_second` is the mean. Zero: no run is
  /// active, or the run has just begun.
  std::uint64_t window_ms = 0;
  /// Milliseconds since the last commit, or since the run began.
  std::uint64_t since_commit_ms = 0;
  /// Sentences that say why `step` is not done. They name the waiting roles,
  /// what these roles do, and the missing replicas or processes. Empty: no run
  /// is active or awaited.
  std::string stall_reason;
  /// Id of the view of the process that answers. Zero: the job has one process,
  /// or has not begun.
  std::uint64_t view_id = 0;
  std::uint64_t run = 0; ///< Number of the active run. Zero: none.
  /// The replicas and processes that `step` waits for.
  std::vector<missing_role> missing;
  /// The last decisions of the process that answers, oldest first.
  std::vector<decision> decisions;
  /// Name of the call whose operation is active, such as "evaluate". Empty: a
  /// step is active, or was last.
  std::string operation{};
  auto fields() {
    return std::tie(job, members, generation, step, steps_per_second, window_ms,
                    since_commit_ms, stall_reason, view_id, run, missing,
                    decisions, operation);
  }
};

/// Returns the status for people: several lines, each with a line break.
std::string to_text(const job_status& status);
std::ostream& operator<<(std::ostream& out, const job_status& status);

} // namespace troupe
