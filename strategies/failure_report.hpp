#pragma once

#include "troupe/strategies/error_code.hpp"
#include "troupe/strategies/fields.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

// Why a run ended early or a job cannot begin, as data. State machines and
// roles make reports; only `describe` (actors/core/failure_text.hpp) makes
// sentences of them.

namespace troupe {

/// Current activity of a role.
enum class activity : std::uint8_t {
  idle,
  computing,
  all_reduce,
  all_gather,
  reducing,
  update ///< The role waits until all replicas can begin or end an update.
};

/// A role that waits, and the inputs it waits for.
struct role_wait {
  bool reducer = false; ///< The role is a reducer, not a replica.
  std::uint32_t id = 0; ///< Id of the reducer or replica.
  activity current_activity = activity::idle;
  /// Bucket of the collective that the role waits for. Unused by the activities
  /// `idle`, `computing` and `update`.
  std::uint32_t bucket = 0;
  /// Replicas whose contributions are missing, as far as the role knows.
  std::vector<std::uint32_t> missing{};
  auto fields() {
    return std::tie(reducer, id, current_activity, bucket, missing);
  }
  friend bool operator==(const role_wait&, const role_wait&) = default;
};

/// The call of a program that requests a run. All processes request a run for
/// the same call.
struct requesting_call {
  static constexpr auto no_step = std::numeric_limits<std::uint64_t>::max();

  /// Name of the call for texts, such as "evaluate". At most
  /// `max_call_name_bytes`. Empty: the run belongs to no call.
  std::string name{};
  /// Number of the call; each process counts the calls of the job that it has
  /// completed, from 0.
  std::uint64_t number = 0;
  /// Text of the exception that a callback of the program has thrown in this
  /// process before the call. It may differ between processes. Empty: none.
  std::string failure{};
  /// Number that the first step of the run has for the user, such as the number
  /// of a step of a fit. `no_step`: the steps of the run are operations that
  /// the user does not count, such as gathers.
  std::uint64_t user_step = no_step;
  auto fields() { return std::tie(name, number, failure, user_step); }
  friend bool operator==(const requesting_call&,
                         const requesting_call&) = default;
};

/// True if two processes request a run for the same call.
bool are_same(const requesting_call& a, const requesting_call& b);

/// Returns the number that a step has for the user. A run that belongs to no
/// call has no other numbers than those of the group.
/// @param call  of the run that the step belongs to.
/// @param first number that the first step of this run has in the group.
/// @param step  number of the step in the group.
/// @returns none if the step is an operation that the user does not count, or
///          before the run.
std::optional<std::uint64_t> user_step_of(const requesting_call& call,
                                          std::uint64_t first,
                                          std::uint64_t step);

/// Returns the name of the call if the user does not count the steps of its
/// run. Empty: the user does, or the run belongs to no call.
std::string operation_of(const requesting_call& call);

/// The run that a process requests.
struct requested_run {
  std::uint32_t process = 0; ///< Process that requests the run.
  /// Run number; each process counts its own calls of `run`, from 1.
  std::uint64_t run = 0;
  std::uint64_t first_step = 0; ///< First step of the run.
  /// First step after the run; the maximum stands for an unlimited run.
  std::uint64_t end_step = 0;
  requesting_call call{}; ///< The call that the run belongs to.
  auto fields() { return std::tie(process, run, first_step, end_step, call); }
  friend bool operator==(const requested_run&, const requested_run&) = default;
};

/// What happened. The comment of each kind lists the fields that a report of
/// this kind uses besides `code` and `run`. The numbers are a wire format:
/// append, never reuse.
enum class failure_kind : std::uint8_t {
  /// None of the kinds below. `cause` is the whole text.
  unspecified = 0,
  /// The step function of `replicas[0]` threw in `step`, or its collectives
  /// failed in this process: `cause`.
  step_failed = 1,
  /// A wait of `replicas[0]` in `step` lasted longer than `timeout_ms`, the
  /// timeout of its call. `waits[0]` is that wait.
  wait_timed_out = 2,
  /// `replicas[0]` found that `processes[0]` violated the protocol of the
  /// collectives in `step`: `cause`. `waits[0]` says what the replica did.
  peer_violation = 3,
  /// `replicas[0]` has no step function with the name `cause`.
  step_function_unknown = 4,
  /// The actor of `replicas[0]` ended in `step`, with the exit reason `cause`.
  replica_lost = 5,
  /// The actor of reducer `replicas[0]` ended in `step`, as above.
  reducer_lost = 6,
  /// `processes[0]`, with its `replicas`, was lost in `step`: `cause`. Empty
  /// `cause`: the process has shut down.
  process_lost = 7,
  /// As `process_lost`, before a replica began `step`.
  process_lost_before_step = 8,
  /// `processes[0]` was lost while no run was active: `cause`, as above.
  process_lost_between_runs = 9,
  /// `replicas[0]` has lost its lanes to `processes[0]` in `step`: `cause`. The
  /// loss of that process was not reported.
  lanes_lost = 10,
  /// `step` made no progress for `timeout_ms`. Zero: it can make none.
  stalled = 11,
  /// `step` cannot begin: `replicas` did not acknowledge `generation` for
  /// `timeout_ms`.
  not_configured = 12,
  /// The run cannot begin, because `replicas[0]` was lost before.
  replica_missing = 13,
  /// The run cannot begin, because reducer `replicas[0]` was lost before.
  reducer_missing = 14,
  /// `replicas[0]` reported `step`, which it was not granted.
  step_not_granted = 15,
  /// `requests[0].process` left `run` and requested another run.
  run_left = 16,
  /// `requests[0]` and `requests[1]` differ.
  runs_differ = 17,
  /// `run` of `processes[0]` has ended for all other processes.
  run_ended = 18,
  /// `processes` did not join `requests[0]` for `timeout_ms`. Without a
  /// request: the processes have not joined yet.
  run_not_joined = 19,
  /// `processes[0]`, the leader, committed `step` instead of `expected_step`.
  commit_out_of_order = 20,
  /// `processes[0]`, the leader, sent a report that is out of bounds.
  malformed_report = 21,
  /// The chief of this group has terminated.
  chief_terminated = 22,
  /// No message of the chief arrived for `timeout_ms`.
  chief_silent = 23,
  /// `replicas[0]` did not call the function of `for_each` for `timeout_ms`.
  task_not_run = 24,
  /// The function of `for_each` threw at `replicas[0]`: `cause`.
  task_failed = 25,
  /// Status of an active run: `replicas` have not reported `step`.
  step_pending = 26,
  /// Status of a job that has not begun: `processes` have not joined.
  job_not_joined = 27,
  /// The job cannot begin: no process hosts a replica.
  no_replica = 28,
  /// The job cannot begin: `processes` did not join for `timeout_ms`. Zero: it
  /// waits for them. `cause`: which processes and connections were rejected.
  start_not_joined = 29,
  /// The job cannot begin: `processes` did not open their lanes in time.
  lanes_not_open = 30,
  /// The job cannot begin: `processes[0]` was lost before, for the reason
  /// `cause`. Empty `cause`: it has left.
  process_lost_in_start = 31,
  /// The leader has rejected this process: `cause`.
  join_rejected = 32,
  /// This process could not reach the leader for `timeout_ms`: `cause`. Empty
  /// `cause`: the leader did not answer.
  leader_unreachable = 33,
  /// The leader sent no view in time.
  view_missing = 34,
  /// The leader sent a view that cannot be right.
  malformed_view = 35,
  /// The leader did not start the job in time.
  start_missing = 36,
  /// `replicas[0]` reported another number of metrics of `step` than the other
  /// replicas, or too many.
  metrics_differ = 37,
  /// Status of an active run: no step is granted before the callers of the run
  /// in `processes` have taken the commit of `step`.
  commits_not_taken = 45,
  /// Status of a job whose processes have not agreed on the view `generation`
  /// for `timeout_ms`: `processes`, members of the last view, are missing.
  view_not_agreed = 46,
};

/// Why a run ended early or a job cannot begin: who failed, in which step, and
/// who waited for what.
struct failure_report {
  failure_kind kind = failure_kind::unspecified;
  ec code = ec::invalid; ///< Says how the caller can react.
  /// Processes that are lost, suspected, absent or wrong; see `failure_kind`.
  std::vector<std::uint32_t> processes{};
  /// Replicas that are lost, silent or have failed; see `failure_kind`.
  std::vector<std::uint32_t> replicas{};
  /// Number of the run, counted by its callers. Zero: none.
  std::uint64_t run = 0;
  /// Number of the step in the group, or after `use_user_steps` the number that
  /// it has for the user.
  std::uint64_t step = 0;
  std::uint64_t expected_step = 0; ///< See `commit_out_of_order`.
  std::uint64_t generation = 0;    ///< See `not_configured`.
  std::uint64_t timeout_ms = 0;    ///< Timeout that expired. Zero: none.
  /// Text from outside the protocols: of an exception, of the end of a
  /// connection, or of a violated rule.
  std::string cause{};
  /// `cause` of a replica's failure that followed the failure of this report.
  std::string later_cause{};
  /// Roles that waited in `step`, and for what.
  std::vector<role_wait> waits{};
  /// Number of further waits, which do not fit into a report.
  std::uint32_t unlisted_waits = 0;
  /// Replicas that neither reported `step` nor answered the probe.
  std::vector<std::uint32_t> unresponsive{};
  /// Replicas of this process that are still inside the function of the caller,
  /// after the call has failed.
  std::vector<std::uint32_t> inside{};
  std::vector<requested_run> requests{}; ///< See `failure_kind`.
  /// Name of the call whose operation `step` is. Empty: `step` is a step.
  std::string operation{};

  auto fields() {
    return std::tie(kind, code, processes, replicas, run, step, expected_step,
                    generation, timeout_ms, cause, later_cause, waits,
                    unlisted_waits, unresponsive, inside, requests, operation);
  }
  friend bool operator==(const failure_report&,
                         const failure_report&) = default;
};

/// Maximum size in bytes of each text of a report.
inline constexpr std::size_t max_cause_bytes = std::size_t{64} << 10;
/// Maximum number of waits of a report, and of missing replicas in all of them.
inline constexpr std::size_t max_waits = 256, max_missing_replicas = 16384;
/// Maximum number of requests of a report.
inline constexpr std::size_t max_requests = 2;
/// Maximum size in bytes of the name of a call.
inline constexpr std::size_t max_call_name_bytes = 256;

/// Gives the steps of a report the numbers that they have for the user. If they
/// are operations that the user does not count, sets `operation`.
/// @param call  of the run that the report is about.
/// @param first number that the first step of this run has in the group.
/// @pre the steps of the report have the numbers of the group.
void use_user_steps(failure_report& report, const requesting_call& call,
                    std::uint64_t first);

/// Shortens the texts and drops waits, so that the report is within the limits
/// above. `unlisted_waits` counts the dropped waits.
void shorten(failure_report& report);

/// Returns true if a peer that follows the protocol can send the report: its
/// texts and lists are within the limits, and its ids exist. Ids of reducers
/// and of `step_not_granted` are not checked.
/// @param processes number of processes of the job.
/// @param replicas  number of replicas of the job.
bool is_possible(const failure_report& report, std::uint32_t processes,
                 std::uint32_t replicas);

/// Adds the failure of a replica to the report of an earlier failure, which
/// caused it or happened at the same time.
void add_failure(failure_report& report, const failure_report& later);

} // namespace troupe
