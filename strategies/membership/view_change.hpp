#pragma once

#include "troupe/strategies/membership/view_messages.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

/// The members of a view agree on the next one when a process is lost, joins or
/// leaves. For each view one proposal is chosen by single-decree Paxos (Lamport
/// 1998) among the members of the view before it.
///
///   who      every member of the current view. The proposer is the lowest
///            member that is not excluded, as far as this process knows; if it
///            does not act, the next one is. Only incarnations of the current
///            view vote, so a process that was restarted does not
///   messages any member to the proposer: request, promise, accept, outdated
///            proposer to all members: prepare, propose
///            any process to any other: install, inquire
///   start    when a member is unreachable, dead or leaving, a process joins,
///   or
///            a member wants a renewal: a view with the same members and the
///            same replicas, whose lanes and channels are new
///   on prepare  of the newest attempt: stop the replicas, then promise, with
///            this process's position and the proposal that it has accepted
///   on promise  by a majority, and by all members that the proposer can reach:
///            propose what a promise carries from the newest attempt, if any;
///            else the members that stay, with all replicas placed again
///   on propose  of the newest attempt: accept
///   on accept  by a majority: the view takes effect, install to all
///   on install  of a newer view: it takes effect. A process that is not its
///            member is removed, and those that reach it pass it the install
///   on timeout  send again what has not been answered. A process that should
///            propose and waits for another one begins an attempt itself
///   end      with the next view, unless something else has changed since
///   majority more than half of the members of the current view; or half of
///            them, if all others are known to be dead; or all processes of the
///            job that live, if a witness of the whole job names them. It does
///            not suffice that all members which are not dead agree: those that
///            died may have agreed on a view with processes that joined
///   exclusion  a member that the proposer cannot reach, or that is dead, does
///            not belong to the next view. If two members cannot reach each
///            other, the one that more members cannot reach is excluded. On a
///            tie, it is the one that more members have found silent, and then
///            the one with the higher task. The last member that hosts
///            replicas is not excluded. The same holds for two members that
///            are connected and cannot open their lanes (`on_no_lanes`)
///   cost     two round trips, and 5 messages for each member that answers
///   faults   older view -> answered with install; any sender
///            newer view -> answered with inquire
///            older attempt -> answered with outdated
///            message of a process that is known to be dead, of a process that
///            is not a member, or with an impossible proposal -> ignored
namespace troupe::view_change {

/// What a process knows of the reasons for another view. Processes are named by
/// their tasks.
struct change_reasons {
  /// Process that has begun the newest attempt. None: there is no attempt.
  std::optional<std::uint32_t> proposer{};
  /// Pairs of members; the first one cannot reach the second one.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> unreachable{};
  /// Members to which this process cannot open lanes.
  std::vector<std::uint32_t> without_lanes{};
  std::vector<std::uint32_t> dead{};    ///< Members known to have ended.
  std::vector<std::uint32_t> leaving{}; ///< Members that want to leave.
  std::vector<std::uint32_t> joining{}; ///< Processes that ask to join.
  bool renewal = false;                 ///< A member wants to renew the view.
};

class state_machine {
public:
  /// @param current the view that has taken effect. @pre it has a member with
  ///                the incarnation `self`.
  state_machine(const view& current, std::uint64_t self);
  /// The state machine of a process that has joined: it has received `install`.
  state_machine(const numbered_proposal& decision, std::uint64_t self);

  // -- changes ----------------------------------------------------------------

  /// This process cannot reach a member: their connection has ended and cannot
  /// be made again, or the member has been silent for too long. Also: the
  /// connection to a candidate has ended.
  /// @param was_silent true: nothing was received from it for the heartbeat
  ///        timeout, during which this process was not stopped.
  reaction on_unreachable(std::uint64_t incarnation, bool was_silent = false);
  /// A connection to a member has been made, also after it was unreachable.
  reaction on_reachable(std::uint64_t incarnation);
  /// A process is known to have ended, for example by its exit status. No
  /// effect for this process itself.
  reaction on_dead(std::uint64_t incarnation);
  /// A process that has started all processes of the job, such as a launcher,
  /// says which of them live. All others that may have joined have ended, so a
  /// process that is started later can join only by those that live. The
  /// witness is asked again after each later death. Void as soon as a view
  /// takes effect.
  reaction on_survivors(const std::vector<process_id>& living);
  /// A process that is connected to this one asks to join; it repeats that
  /// until it receives `install`. It joins when it has asked all members that
  /// stay, and none of them has its task. One process joins at a time.
  reaction on_join(const member& candidate);
  /// Forgets the candidates that have asked this process, because they cannot
  /// join at the position at which its replicas stop. They ask again. Call it
  /// before `on_stopped`.
  void forget_candidates() { joining_.erase(self_); }
  /// This process wants to leave, as `on_leaving` says.
  reaction leave() { return on_leaving(self_); }
  /// A member wants to leave. No effect as long as no other member that stays
  /// hosts replicas. Void as soon as a view takes effect: a member that still
  /// wants to leave says so again.
  reaction on_leaving(std::uint64_t incarnation);
  /// A connection or a lane was cut, but no member is known to be lost. So the
  /// replicas of this process cannot continue in the current view. Void as soon
  /// as a view takes effect.
  reaction on_renewal_wanted();
  /// This process cannot open its lanes to a member, although they are
  /// connected. One of the two is excluded, as if they could not reach each
  /// other. Void as soon as a view takes effect.
  /// @param is_newer the member has joined later than this process. On a tie,
  ///        it is excluded like one that this process has found silent.
  reaction on_no_lanes(std::uint64_t incarnation, bool is_newer);

  // -- protocol ---------------------------------------------------------------

  /// The replicas of this process have stopped. Call it after `stop`.
  /// @param position None: this process does not have the complete state of the
  ///        job, because it has joined and is still copying the state.
  reaction on_stopped(const std::optional<job_position>& position);
  reaction on(const process_id& sender, const message& received);
  /// The timer has elapsed.
  reaction on_timeout();

  const view& current() const { return view_; }
  /// Returns why the members agree on another view, as far as this process
  /// knows.
  change_reasons reasons() const;
  /// True if this process has heard that a member is dead or cannot be reached.
  bool misses_members() const;
  /// True if a member is known to have ended.
  bool is_dead(std::uint64_t incarnation) const {
    return dead_.contains(incarnation);
  }
  /// True if this process has heard that a member wants to leave the current
  /// view.
  bool has_leavers() const { return !leaving_.empty(); }
  /// True if a member wants to renew the current view.
  bool wants_renewal() const { return wants_renewal_; }
  /// True after `removed`. This process then only answers `install` to messages
  /// of older views: it may be the only one that can.
  bool is_removed() const { return removed_; }

private:
  using incarnations = std::set<std::uint64_t>;

  /// A member's answer to `prepare`.
  struct promise {
    std::optional<job_position> position;
    std::optional<numbered_proposal> accepted;
  };
  /// An attempt of this process.
  struct attempt {
    ballot number;
    std::map<std::uint64_t, promise> promises;     ///< By incarnation.
    std::optional<view_change::proposal> proposed; ///< Empty: not yet.
    incarnations accepted; ///< Members that have accepted it.
  };

  // -- changes ----------------------------------------------------------------

  void start_if_needed(reaction& out);
  bool needs_change() const;
  bool can_leave(const incarnations& gone) const;
  bool is_last_host(const incarnations& gone, std::uint64_t member) const;
  bool is_joinable(const member& candidate) const;
  bool can_join(const member& candidate, const incarnations& gone) const;
  void forget_candidate(reaction& out, std::uint64_t incarnation);
  incarnations excluded() const;
  void add_missing_lanes(incarnations& unreachable, incarnations& silent) const;
  void learn(std::uint64_t teller, const knowledge& told);
  knowledge known() const;

  // -- the proposer -----------------------------------------------------------

  void begin_attempt(reaction& out);
  message make_attempt() const;
  void send_attempt(reaction& out) const;
  void on_promise(reaction& out, std::uint64_t sender, const message& received);
  void propose_if_ready(reaction& out);
  void report_silence(reaction& out, bool for_long) const;
  std::optional<proposal> new_proposal() const;
  void on_accept(reaction& out, std::uint64_t sender);
  void finish_if_agreed(reaction& out);
  void on_outdated(reaction& out, const message& received);

  // -- all members ------------------------------------------------------------

  void on_prepare(reaction& out, const message& received);
  void answer_prepare(reaction& out);
  void on_propose(reaction& out, const message& received);
  void on_install(reaction& out, const message& received);
  void take_effect(reaction& out, const numbered_proposal& decision);
  void forget_others();

  // -- queries ----------------------------------------------------------------

  bool can_follow(const view& next) const;
  bool is_possible(const proposal& offered) const;
  bool is_majority(const incarnations& votes) const;
  /// True if this process can reach the member and does not know it to be dead.
  bool is_reachable(std::uint64_t incarnation) const;
  const member* find(std::uint64_t incarnation) const;
  const member& proposer() const;
  bool is_proposer() const { return proposer().incarnation == self_; }
  message make(message_kind kind, const ballot& number) const;
  static void send_to(reaction& out, const member& receiver, message what);
  void send_to_proposer(reaction& out, message what) const;
  void send_decision(reaction& out, const member& receiver) const;
  void restart_timer(reaction& out) const;

  view view_;
  std::uint64_t self_; ///< Incarnation of this process.
  /// The agreement on `view_`. Empty: it is the first view.
  std::optional<numbered_proposal> decision_;

  // What this process knows of members and candidates.
  incarnations dead_, leaving_;
  /// Candidates that are known to have ended. The next view may contain one: it
  /// may have been proposed before.
  incarnations dead_candidates_;
  /// By member: the other members that it cannot reach.
  std::map<std::uint64_t, incarnations> unreachable_;
  /// By member: those of them that were silent for the heartbeat timeout.
  std::map<std::uint64_t, incarnations> silent_;
  /// By member: the candidates that have asked it.
  std::map<std::uint64_t, std::vector<member>> joining_;
  /// Members to which this process cannot open lanes, and which of them have
  /// joined later than this process.
  std::map<std::uint64_t, bool> no_lanes_;
  bool wants_renewal_ = false; ///< A member wants to renew the view.
  /// All processes of the job that live. Empty: no witness has said so.
  std::optional<incarnations> living_;

  // The agreement on the next view.
  ballot promised_; ///< The newest attempt that this process has heard of.
  std::optional<numbered_proposal> accepted_;
  std::optional<attempt> attempt_; ///< Empty: this process does not propose.
  bool stopping_ = false;          ///< True between `stop` and `on_stopped`.
  bool has_stopped_ = false;       ///< True from `on_stopped` to the next view.
  /// Where this process has stopped. Empty: it has no complete state.
  std::optional<job_position> position_;
  bool removed_ = false;
};

} // namespace troupe::view_change
