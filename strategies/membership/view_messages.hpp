#pragma once

#include "troupe/strategies/membership/messages.hpp"

#include <compare>
#include <cstdint>
#include <tuple>
#include <variant>
#include <vector>

// Messages and effects of the protocol in which the members of a view agree on
// the next view (view_change.hpp).

namespace troupe::view_change {

using membership::member, membership::view;
// -- messages -----------------------------------------------------------------

/// Number of an attempt to agree on the view after the current one.
struct ballot {
  /// A proposer increments the highest round that it has seen. Zero: none.
  std::uint64_t round = 0;
  std::uint32_t proposer = 0; ///< Task of the process that makes the attempt.
  auto fields() { return std::tie(round, proposer); }
  friend auto operator<=>(const ballot&, const ballot&) = default;
};

/// How far a process has come in its job.
struct job_position {
  /// Number of the last run that the process has begun; the job counts them.
  std::uint64_t run = 0;
  std::uint64_t step = 0; ///< First step of the run whose update has not begun.
  auto fields() { return std::tie(run, step); }
  friend auto operator<=>(const job_position&, const job_position&) = default;
};

/// What the members agree on.
struct proposal {
  view next; ///< The next view. Its id is that of the current view plus 1.
  /// Where the job goes on: the highest position of a process that has reported
  /// its position.
  job_position resume;
  /// Task of a member of the current view that is at `resume`. Processes that
  /// are behind it, or new, take the state from this member.
  std::uint32_t source = 0;
  auto fields() { return std::tie(next, resume, source); }
  friend bool operator==(const proposal&, const proposal&) = default;
};

/// A proposal, and the attempt in which it was made.
struct numbered_proposal {
  ballot number;
  view_change::proposal proposal;
  auto fields() { return std::tie(number, proposal); }
};

/// What a process knows about the members of its view. Processes are named by
/// their incarnations.
struct knowledge {
  std::vector<std::uint64_t> unreachable{}; ///< The process cannot reach them.
  /// Unreachable processes that were silent for the heartbeat timeout.
  std::vector<std::uint64_t> silent{};
  std::vector<std::uint64_t> dead{};    ///< They are known to have ended.
  std::vector<std::uint64_t> leaving{}; ///< They want to leave.
  std::vector<member> joining{};        ///< They want to join.
  bool renewal = false; ///< The view is to be renewed with the same members.
  auto fields() {
    return std::tie(unreachable, silent, dead, leaving, joining, renewal);
  }
};

/// Kind of a message. The numbers are a wire format: append, never reuse.
enum class message_kind : std::uint8_t {
  request = 0, ///< To the proposer: `known` requires another view.
  prepare = 1, ///< Proposer to all: stop, and report the position.
  /// To the proposer: the sender has stopped at `position` and takes part in no
  /// older attempt. Carries the proposal that the sender has accepted.
  promise = 2,
  propose = 3,  ///< Proposer to all: carries the proposal.
  accept = 4,   ///< To the proposer: the sender has accepted the proposal.
  outdated = 5, ///< To the proposer: `number` is newer than the attempt.
  install = 6,  ///< The proposal in the message has been agreed on.
  inquire = 7,  ///< The view of the sender is old: answer `install`.
};

/// A message between two processes that are or were members of a view.
struct message {
  message_kind kind = message_kind::request;
  std::uint64_t view_id = 0; ///< Current view of the sender.
  ballot number{};           ///< The attempt that the message belongs to.
  /// `promise`: at most one; empty if the sender does not have the complete
  /// state of the job. Else empty.
  std::vector<job_position> position{};
  /// `promise`: at most one. `propose` and `install`: one. Else empty.
  std::vector<numbered_proposal> proposals{};
  knowledge known{}; ///< Not in `install` and `inquire`.
  auto fields() {
    return std::tie(kind, view_id, number, position, proposals, known);
  }
};

// -- effects ------------------------------------------------------------------

/// A process: its task, and its incarnation.
struct process_id {
  std::uint32_t task = 0;
  std::uint64_t incarnation = 0;
  friend auto operator<=>(const process_id&, const process_id&) = default;
};

/// Sends a message to a process.
struct send {
  process_id receiver;
  view_change::message message;
};
/// Stops the replicas of this process. The host answers with `on_stopped` when
/// they have left their steps. They begin no step before `installed`.
struct stop {};
/// Sets the timer. Any earlier setting is void.
struct set_timer {
  /// Time in intervals of the host. An interval is longer than two round trips
  /// between any two members; otherwise two proposers can interrupt each other
  /// for ever.
  std::uint32_t intervals = 1;
};
/// The next view has taken effect, and this process is a member of it.
struct installed {
  proposal decision;
};
/// The next view has taken effect without this process.
struct removed {
  view next;
  bool left = false; ///< True: the process wanted to leave.
};
/// Too few members answer this proposer: no view can be agreed on as long as
/// this lasts. The host decides how long it waits.
struct no_majority {
  std::vector<std::uint32_t> silent; ///< Tasks that have not answered.
  /// True: for one interval of the timer or longer. False: news that changes
  /// this, such as that one of them is dead, may follow at once.
  bool for_long = false;
};
/// No member that answers has the state of the job, and all others are dead.
struct state_lost {};

using effect = std::variant<send, stop, set_timer, installed, removed,
                            no_majority, state_lost>;
/// Effects; the host performs them in this order.
using reaction = std::vector<effect>;

} // namespace troupe::view_change
