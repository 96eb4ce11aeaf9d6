#pragma once

#include "troupe/strategies/failure_report.hpp"
#include "troupe/strategies/fields.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

// Messages and data of the membership protocol, which `leader`, `participant`
// and `candidate` implement.

namespace troupe::membership {

/// Configuration that must be equal in all processes; otherwise their sums or
/// their messages would differ.
struct process_config {
  std::string version;       ///< Version of this library.
  std::string kernels;       ///< Instruction set of the kernels.
  std::uint32_t threads = 1; ///< Threads per replica.
  std::uint32_t tasks = 1;   ///< Number of tasks of the job.
  std::string options;       ///< All other options as one text.
  auto fields() { return std::tie(version, kernels, threads, tasks, options); }
};

/// Request of a process to join the job.
struct join_request {
  std::uint32_t task = 0;        ///< Task that the process takes.
  std::uint64_t incarnation = 0; ///< Drawn at random when the process starts.
  std::string host;       ///< Host at which peers connect to the process.
  std::uint16_t port = 0; ///< Port at which peers connect to the process.
  /// Number of replicas that the process hosts; may be zero.
  std::uint32_t replicas = 1;
  process_config config; ///< Configuration of the process.
  auto fields() {
    return std::tie(task, incarnation, host, port, replicas, config);
  }
};

/// A process that belongs to a view.
struct member {
  std::uint32_t task = 0;
  std::uint64_t incarnation = 0;
  std::string host;
  std::uint16_t port = 0;
  std::vector<std::uint32_t> replicas; ///< Ids that it hosts, ascending.
  /// Number of replicas that the process asked to host when it joined. Zero: it
  /// hosts none in any view.
  std::uint32_t capacity = 0;
  auto fields() {
    return std::tie(task, incarnation, host, port, replicas, capacity);
  }
  friend bool operator==(const member&, const member&) = default;
};

/// The membership of a job at one time.
struct view {
  /// Counts the memberships of a job from 1. Zero: no membership was agreed.
  std::uint64_t view_id = 0;
  std::vector<member> members; ///< In ascending order of their tasks.
  auto fields() { return std::tie(view_id, members); }
  friend bool operator==(const view&, const view&) = default;

  /// @returns the process of a task; null if the view has none.
  const member* find(std::uint32_t task) const {
    const auto it = std::ranges::find(members, task, &member::task);
    return it == members.end() ? nullptr : &*it;
  }
  /// @returns true if this incarnation is the process of the task.
  bool contains(std::uint32_t task, std::uint64_t incarnation) const {
    const auto* it = find(task);
    return it && it->incarnation == incarnation;
  }
};

/// Kind of a message between two processes of the job. The numbers are a wire
/// format: append, never reuse.
enum class message_kind : std::uint8_t {
  view = 0,  ///< Leader to participant: the first view.
  ready = 1, ///< Participant to leader: its lanes to all processes are open.
  start = 2, ///< Leader to participant: all processes are ready.
  abort = 3, ///< Either direction: the job cannot begin; carries the reason.
  /// Participant to leader: it leaves, or answers `shutdown`. Participant to
  /// participant: it leaves. Leader to participant: the leader has left, and
  /// the job goes on.
  leave = 4,
  leave_ack = 5, ///< Leader to participant: answers `leave`.
  shutdown = 6,  ///< Leader to participant: the job ends.
  /// Leader to participant, member to candidate: it cannot join; carries the
  /// reason.
  reject = 7,
  /// Member to candidate: the view of the sender. Its text is `leads_job` if
  /// the sender decides when the job ends.
  current_view = 8,
  join = 9, ///< Candidate to member: it asks to belong to the next view.
};

/// Text of `current_view`.
inline constexpr const char* leads_job = "leads";

/// A message between two processes of the job.
struct message {
  message_kind kind = message_kind::leave_ack;
  /// Reason of `abort` and `reject`, text of `current_view`; else empty.
  std::string text;
  /// `view` and `current_view`: the view. `ready` and `start`: the id of the
  /// view, without its members. Any other kind: empty.
  membership::view view{};
  auto fields() { return std::tie(kind, text, view); }
};

/// Results of calls of the job, on a channel of their own. A process that joins
/// asks all others, and each answers with those that it has.
struct call_results {
  bool is_question = false; ///< It has no results.
  std::uint64_t first = 0;  ///< Number of the first call.
  std::vector<std::string> results;
  auto fields() { return std::tie(is_question, first, results); }
};

/// Answer of a member to a spare: which tasks of the job are vacant.
struct vacancies {
  /// View of the member. Its id is zero: no process can join at present.
  membership::view view;
  /// Tasks that neither a member of the view has nor a connected process that
  /// asks to join, in ascending order.
  std::vector<std::uint32_t> tasks;
  auto fields() { return std::tie(view, tasks); }
};

// -- effects ------------------------------------------------------------------

/// Why a job does not admit a process.
struct rejection {
  enum class kind {
    unknown_task, ///< The job has no such task.
    closed,       ///< The job has its processes already.
    taken,        ///< A living process has the task.
    version,      ///< The field of `process_config` that differs.
    kernels,
    threads,
    job_size,
    options,
    replicas, ///< The job would have more than `max_replicas`.
  } cause = kind::unknown_task;
  std::uint32_t task = 0;
  /// Value of the process, and the one that it must have or may have at most.
  std::string actual, required;
};

/// Compares the configuration of a process with the one that it must have.
/// @returns why they differ. None: they are equal.
inline std::optional<rejection> difference(std::uint32_t task,
                                           const process_config& actual,
                                           const process_config& required) {
  using enum rejection::kind;
  if (actual.version != required.version)
    return rejection{version, task, actual.version, required.version};
  if (actual.kernels != required.kernels)
    return rejection{kernels, task, actual.kernels, required.kernels};
  if (actual.threads != required.threads)
    return rejection{threads, task, std::to_string(actual.threads),
                     std::to_string(required.threads)};
  if (actual.tasks != required.tasks)
    return rejection{job_size, task, std::to_string(actual.tasks),
                     std::to_string(required.tasks)};
  if (actual.options != required.options)
    return rejection{options, task, actual.options, required.options};
  return {};
}

/// The leader has admitted the process that asked.
struct admitted {
  std::uint32_t task = 0;
};
/// The leader has rejected the process that asked.
struct rejected {
  rejection why;
};
/// Sends a message to the process of a task.
struct send {
  std::uint32_t task = 0;
  membership::message message;
};
/// The first view has been agreed on.
struct view_changed {
  membership::view view;
};
/// All processes are ready: the job begins.
struct started {};
/// The job cannot begin. The host adds the start timeout to the report, and
/// sends `abort` with the sentence of the report to the processes of `notify`.
struct failed {
  failure_report why;
  std::vector<std::uint32_t> notify{};
};
/// The process of a task has left the job.
struct left {
  std::uint32_t task = 0;
};
/// The leader ends the job: there is no further view.
struct job_ends {};
/// No other process has to be waited for: this process may close its
/// connections.
struct ended {};

using effect = std::variant<admitted, rejected, send, view_changed, started,
                            failed, left, job_ends, ended>;
using reaction = std::vector<effect>;

} // namespace troupe::membership
