#include "troupe/strategies/membership/view_change.hpp"

#include "troupe/strategies/membership/reassignment.hpp"
#include "troupe/strategies/placement.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace troupe::view_change {

namespace {

/// Highest round of an attempt. A job does not reach it.
constexpr std::uint64_t max_round = std::uint64_t{1} << 62;

/// Returns the ids of all replicas, ascending.
std::vector<std::uint32_t> replicas_of(const view& x) {
  std::vector<std::uint32_t> ids;
  for (const auto& one : x.members)
    ids.insert(ids.end(), one.replicas.begin(), one.replicas.end());
  std::ranges::sort(ids);
  return ids;
}

bool has_ascending_tasks(const view& x) {
  const auto descends = [](const member& a, const member& b) {
    return a.task >= b.task;
  };
  return std::ranges::adjacent_find(x.members, descends) == x.members.end();
}

bool contains_incarnation(const view& x, std::uint64_t incarnation) {
  return std::ranges::find(x.members, incarnation, &member::incarnation)
         != x.members.end();
}

} // namespace

state_machine::state_machine(const view& current, std::uint64_t self)
  : view_{current}, self_{self} {}

state_machine::state_machine(const numbered_proposal& decision,
                             std::uint64_t self)
  : view_{decision.proposal.next}, self_{self}, decision_{decision} {}

// -- changes ------------------------------------------------------------------

reaction state_machine::on_unreachable(std::uint64_t incarnation,
                                       bool was_silent) {
  reaction out;
  if (incarnation == self_ || removed_)
    return out;
  if (find(incarnation)) {
    unreachable_[self_].insert(incarnation);
    if (was_silent)
      silent_[self_].insert(incarnation);
    else
      silent_[self_].erase(incarnation);
  } else {
    forget_candidate(out, incarnation);
  }
  start_if_needed(out);
  return out;
}

reaction state_machine::on_reachable(std::uint64_t incarnation) {
  reaction out;
  const auto* const other = find(incarnation);
  if (removed_ || !other || incarnation == self_)
    return out;
  const bool was_unreachable = unreachable_[self_].erase(incarnation) > 0;
  silent_[self_].erase(incarnation);
  // Compares the views, and withdraws an older report. What this process has
  // sent to the other one since they were connected may be lost.
  send_to(out, *other,
          attempt_ ? make_attempt() : make(message_kind::request, {}));
  if (was_unreachable && other->incarnation != proposer().incarnation
      && !is_proposer())
    send_to_proposer(out, make(message_kind::request, {}));
  start_if_needed(out);
  return out;
}

reaction state_machine::on_dead(std::uint64_t incarnation) {
  reaction out;
  if (incarnation == self_ || removed_)
    return out;
  if (find(incarnation)) {
    dead_.insert(incarnation);
  } else {
    dead_candidates_.insert(incarnation);
    forget_candidate(out, incarnation);
  }
  start_if_needed(out);
  return out;
}

/// A process that asked this process to join has ended.
void state_machine::forget_candidate(reaction& out, std::uint64_t incarnation) {
  if (std::erase_if(
        joining_[self_],
        [&](const member& x) { return x.incarnation == incarnation; })
        > 0
      && !is_proposer())
    send_to_proposer(out, make(message_kind::request, {}));
}

reaction state_machine::on_survivors(const std::vector<process_id>& living) {
  reaction out;
  if (removed_)
    return out;
  living_ = incarnations{self_};
  for (const auto& x : living) {
    living_->insert(x.incarnation);
    // Such a process may be a member of a later view.
    if (!find(x.incarnation))
      send_to(out, {x.task, x.incarnation, {}, 0, {}, 0},
              make(message_kind::request, {}));
  }
  for (const auto& x : view_.members)
    if (!living_->contains(x.incarnation))
      dead_.insert(x.incarnation);
  start_if_needed(out);
  return out;
}

reaction state_machine::on_join(const member& candidate) {
  reaction out;
  if (removed_)
    return out;
  if (find(candidate.incarnation)) { // it has not received `install`
    send_decision(out, candidate);
    return out;
  }
  auto& own = joining_[self_];
  std::erase_if(own, [&](const member& x) { return x.task == candidate.task; });
  own.push_back(candidate);
  start_if_needed(out);
  return out;
}

reaction state_machine::on_leaving(std::uint64_t incarnation) {
  reaction out;
  if (find(incarnation) && leaving_.insert(incarnation).second)
    start_if_needed(out);
  return out;
}

reaction state_machine::on_renewal_wanted() {
  reaction out;
  if (!removed_ && !std::exchange(wants_renewal_, true))
    start_if_needed(out);
  return out;
}

reaction state_machine::on_no_lanes(std::uint64_t incarnation, bool is_newer) {
  reaction out;
  if (removed_ || incarnation == self_ || !find(incarnation))
    return out;
  if (no_lanes_.insert_or_assign(incarnation, is_newer).second)
    start_if_needed(out);
  return out;
}

/// Begins an attempt, or asks the proposer for one, if another view is needed.
void state_machine::start_if_needed(reaction& out) {
  if (removed_)
    return;
  if (attempt_)
    return propose_if_ready(out);
  const bool waits = promised_.round > 0;
  const auto* const other = waits ? view_.find(promised_.proposer) : nullptr;
  if (waits && other && !excluded().contains(other->incarnation))
    return; // that process proposes
  if (!waits && !needs_change())
    return;
  if (is_proposer())
    return begin_attempt(out);
  send_to_proposer(out, make(message_kind::request, {}));
  restart_timer(out);
}

bool state_machine::needs_change() const {
  const auto reports = [](const auto& x) { return !x.second.empty(); };
  // Only the proposer hears which members a candidate has asked.
  const auto joins = [this](const auto& x) {
    return std::ranges::any_of(x.second, [this](const member& y) {
      return is_proposer() ? can_join(y, excluded()) : is_joinable(y);
    });
  };
  return wants_renewal_ || !dead_.empty() || !no_lanes_.empty()
         || (!leaving_.empty() && can_leave(excluded()))
         || std::ranges::any_of(unreachable_, reports)
         || std::ranges::any_of(joining_, joins);
}

/// True if a member hosts replicas that is neither gone nor leaves.
bool state_machine::can_leave(const incarnations& gone) const {
  return std::ranges::any_of(view_.members, [&](const member& x) {
    return x.capacity > 0 && !gone.contains(x.incarnation)
           && !leaving_.contains(x.incarnation);
  });
}

/// True if a member hosts replicas, and all others that do are gone or leave.
bool state_machine::is_last_host(const incarnations& gone,
                                 std::uint64_t incarnation) const {
  auto others = gone;
  others.insert(incarnation);
  return find(incarnation)->capacity > 0 && !can_leave(others);
}

/// True if no member has the candidate's task, or that member goes.
bool state_machine::is_joinable(const member& candidate) const {
  const auto* const holder = view_.find(candidate.task);
  return !holder || !is_reachable(holder->incarnation)
         || (leaving_.contains(holder->incarnation) && can_leave(excluded()));
}

/// True if the candidate is joinable and has asked all members that are not
/// gone, so that it is connected to them.
bool state_machine::can_join(const member& candidate,
                             const incarnations& gone) const {
  const auto was_asked = [&](const member& x) {
    const auto told = joining_.find(x.incarnation);
    return told != joining_.end()
           && std::ranges::find(told->second, candidate.incarnation,
                                &member::incarnation)
                != told->second.end();
  };
  return is_joinable(candidate)
         && std::ranges::all_of(view_.members, [&](const member& x) {
              return gone.contains(x.incarnation) || was_asked(x);
            });
}

/// Adds the members to which this process has no lanes to those that it cannot
/// reach.
void state_machine::add_missing_lanes(incarnations& unreachable,
                                      incarnations& silent) const {
  for (const auto& [incarnation, is_newer] : no_lanes_) {
    unreachable.insert(incarnation);
    if (is_newer)
      silent.insert(incarnation);
  }
}

/// Returns the members that cannot belong to the next view. Of two members that
/// cannot reach each other, one is excluded.
state_machine::incarnations state_machine::excluded() const {
  incarnations out = dead_;
  if (const auto own = unreachable_.find(self_); own != unreachable_.end())
    out.insert(own->second.begin(), own->second.end());
  auto unreachable = unreachable_, silent = silent_;
  add_missing_lanes(unreachable[self_], silent[self_]);
  for (;;) {
    std::map<std::uint64_t, std::size_t> broken_paths; // by member
    for (const auto& [from, others] : unreachable)
      for (const auto to : others)
        if (!out.contains(from) && !out.contains(to)) {
          // The two members may both have reported the path.
          const auto back = unreachable.find(to);
          const bool both =
            back != unreachable.end() && back->second.contains(from);
          if (both && to < from)
            continue;
          ++broken_paths[from];
          ++broken_paths[to];
        }
    if (broken_paths.empty())
      return out;
    const auto times_silent = [&](std::uint64_t incarnation) {
      return std::ranges::count_if(silent, [&](const auto& x) {
        return !out.contains(x.first) && x.second.contains(incarnation);
      });
    };
    const auto worst =
      std::ranges::max_element(broken_paths, {}, [&](const auto& x) {
        return std::tuple{!is_last_host(out, x.first), x.second,
                          times_silent(x.first), find(x.first)->task};
      });
    out.insert(worst->first);
  }
}

void state_machine::learn(std::uint64_t teller, const knowledge& told) {
  const auto members_of = [this](const std::vector<std::uint64_t>& list) {
    incarnations out;
    for (const auto x : list)
      if (find(x))
        out.insert(x);
    return out;
  };
  unreachable_[teller] = members_of(told.unreachable);
  unreachable_[teller].erase(teller);
  silent_[teller] = members_of(told.silent);
  std::erase_if(silent_[teller], [&](std::uint64_t x) {
    return !unreachable_[teller].contains(x);
  });
  dead_.merge(members_of(told.dead));
  dead_.erase(self_);
  leaving_.merge(members_of(told.leaving));
  wants_renewal_ |= told.renewal;
  auto& candidates = joining_[teller];
  candidates.clear();
  for (const auto& x : told.joining)
    if (candidates.size() < max_replicas && !find(x.incarnation))
      candidates.push_back(x);
}

knowledge state_machine::known() const {
  knowledge out;
  incarnations unreachable, silent;
  if (const auto own = unreachable_.find(self_); own != unreachable_.end())
    unreachable = own->second;
  if (const auto own = silent_.find(self_); own != silent_.end())
    silent = own->second;
  add_missing_lanes(unreachable, silent);
  out.unreachable.assign(unreachable.begin(), unreachable.end());
  out.silent.assign(silent.begin(), silent.end());
  out.dead.assign(dead_.begin(), dead_.end());
  out.leaving.assign(leaving_.begin(), leaving_.end());
  out.renewal = wants_renewal_;
  if (const auto own = joining_.find(self_); own != joining_.end())
    out.joining = own->second;
  return out;
}

// -- the proposer -------------------------------------------------------------

void state_machine::begin_attempt(reaction& out) {
  promised_ = {promised_.round + 1, find(self_)->task};
  attempt_ = attempt{promised_, {}, {}, {}};
  send_attempt(out);
  answer_prepare(out);
  restart_timer(out);
}

/// Returns the `prepare` or `propose` of the attempt.
message state_machine::make_attempt() const {
  auto out =
    make(attempt_->proposed ? message_kind::propose : message_kind::prepare,
         attempt_->number);
  if (attempt_->proposed)
    out.proposals.push_back({attempt_->number, *attempt_->proposed});
  return out;
}

/// Sends it to all members that have not answered it.
void state_machine::send_attempt(reaction& out) const {
  const auto& [number, promises, proposed, accepted] = *attempt_;
  const auto what = make_attempt();
  for (const auto& x : view_.members)
    if (x.incarnation != self_ && !dead_.contains(x.incarnation)
        && !(proposed ? accepted.contains(x.incarnation)
                      : promises.contains(x.incarnation)))
      send_to(out, x, what);
}

void state_machine::on_promise(reaction& out, std::uint64_t sender,
                               const message& received) {
  if (!attempt_ || attempt_->number != received.number)
    return;
  promise given;
  if (!received.position.empty())
    given.position = received.position.front();
  if (!received.proposals.empty()
      && is_possible(received.proposals.front().proposal))
    given.accepted = received.proposals.front();
  attempt_->promises.try_emplace(sender, std::move(given));
  propose_if_ready(out);
}

/// Proposes a view if a majority and all members that this process can reach
/// have promised.
void state_machine::propose_if_ready(reaction& out) {
  auto& [number, promises, proposed, accepted] = *attempt_;
  if (proposed)
    return finish_if_agreed(out);
  const auto& given_promises = promises;
  incarnations votes;
  for (const auto& [incarnation, given] : promises)
    votes.insert(incarnation);
  const auto awaited = [&](const member& x) {
    return is_reachable(x.incarnation) && !votes.contains(x.incarnation);
  };
  if (std::ranges::any_of(view_.members, awaited))
    return;
  if (!is_majority(votes))
    return report_silence(out, false);
  const numbered_proposal* newest = nullptr;
  for (const auto& [incarnation, given] : promises)
    if (given.accepted && (!newest || newest->number < given.accepted->number))
      newest = &*given.accepted;
  proposed = newest ? newest->proposal : new_proposal();
  if (!proposed) {
    const auto has_no_state = [&](const member& x) {
      const auto given = given_promises.find(x.incarnation);
      return x.capacity == 0 || dead_.contains(x.incarnation)
             || (given != given_promises.end() && !given->second.position);
    };
    if (std::ranges::all_of(view_.members, has_no_state))
      out.emplace_back(state_lost{});
    return; // a host may be reachable again
  }
  accepted_ = {number, *proposed};
  accepted = {self_};
  send_attempt(out);
  restart_timer(out);
  finish_if_agreed(out);
}

/// Names the members that have not answered, unless one of them is reachable.
/// A process that has asked to join may be a member of a later view, of which
/// this process has not heard.
void state_machine::report_silence(reaction& out, bool for_long) const {
  std::vector<std::uint32_t> silent;
  bool awaits_reachable = stopping_;
  for (const auto& x : view_.members) {
    const bool answered = attempt_->proposed
                            ? attempt_->accepted.contains(x.incarnation)
                            : attempt_->promises.contains(x.incarnation);
    if (!answered && x.incarnation != self_)
      silent.push_back(x.task);
    awaits_reachable |= !answered && is_reachable(x.incarnation);
  }
  if (awaits_reachable || silent.empty())
    return;
  if (const auto asked = joining_.find(self_); asked != joining_.end())
    for (const auto& x : asked->second)
      send_to(out, x, make(message_kind::request, {}));
  out.emplace_back(no_majority{std::move(silent), for_long});
}

/// Returns the view without the members that are excluded or leave, with the
/// processes that join. Empty: no member that answered has the state of the
/// job, or none that stays hosts replicas.
std::optional<proposal> state_machine::new_proposal() const {
  const auto gone = excluded();
  const bool may_leave = can_leave(gone);
  std::vector<member> stay, joined;
  for (const auto& x : view_.members)
    if (!gone.contains(x.incarnation)
        && !(may_leave && leaving_.contains(x.incarnation)))
      stay.push_back(x);
  const auto is_in = [](const std::vector<member>& list, const member& x) {
    return std::ranges::any_of(list, [&](const member& y) {
      return x.task == y.task || x.incarnation == y.incarnation;
    });
  };
  // Two candidates may not be connected to each other yet.
  for (const auto& [teller, candidates] : joining_)
    for (const auto& x : candidates)
      if (joined.empty() && !is_in(stay, x) && can_join(x, gone))
        joined.push_back(x);
  proposal out{
    {view_.view_id + 1, membership::reassigned(view_, stay, joined)}, {}, 0};
  if (out.next.members.empty())
    return std::nullopt;
  bool has_source = false, source_stays = false;
  for (const auto& x : view_.members) {
    const auto given = attempt_->promises.find(x.incarnation);
    if (x.capacity == 0 || given == attempt_->promises.end()
        || !given->second.position)
      continue;
    const auto& position = *given->second.position;
    const bool stays = contains_incarnation(out.next, x.incarnation);
    if (has_source
        && std::pair{position, stays} <= std::pair{out.resume, source_stays})
      continue;
    has_source = true;
    source_stays = stays;
    out.resume = position;
    out.source = x.task;
  }
  return has_source ? std::optional{out} : std::nullopt;
}

void state_machine::on_accept(reaction& out, std::uint64_t sender) {
  attempt_->accepted.insert(sender);
  finish_if_agreed(out);
}

/// The proposal takes effect if a majority has accepted it.
void state_machine::finish_if_agreed(reaction& out) {
  if (is_majority(attempt_->accepted))
    take_effect(out, numbered_proposal{attempt_->number, *attempt_->proposed});
}

/// Another process has begun a newer attempt.
void state_machine::on_outdated(reaction& out, const message& received) {
  if (received.number <= promised_)
    return;
  promised_ = received.number;
  attempt_.reset();
  restart_timer(out);
}

// -- all members --------------------------------------------------------------

reaction
state_machine::on_stopped(const std::optional<job_position>& position) {
  reaction out;
  if (!std::exchange(stopping_, false) || removed_)
    return out;
  has_stopped_ = true;
  position_ = position;
  answer_prepare(out);
  return out;
}

reaction state_machine::on(const process_id& sender, const message& received) {
  reaction out;
  if (dead_.contains(sender.incarnation))
    return out;
  if (received.kind == message_kind::install && !removed_) {
    on_install(out, received);
    return out;
  }
  const member process{sender.task, sender.incarnation, {}, 0, {}, 0};
  if (received.view_id < view_.view_id) {
    send_decision(out, process); // also from a process that was removed
    // It has dropped what it received before that view.
    if (attempt_ && find(sender.incarnation))
      send_to(out, process, make_attempt());
    return out;
  }
  if (removed_)
    return out;
  if (received.view_id > view_.view_id) {
    send_to(out, process, make(message_kind::inquire, {}));
    return out;
  }
  if (!find(sender.incarnation) || sender.incarnation == self_
      || received.number.round > max_round)
    return out;
  if (received.kind != message_kind::inquire)
    learn(sender.incarnation, received.known);
  switch (received.kind) {
    case message_kind::request:
      start_if_needed(out);
      break;
    case message_kind::prepare:
    case message_kind::propose:
      if (received.number < promised_)
        send_to(out, process, make(message_kind::outdated, promised_));
      else if (received.kind == message_kind::prepare)
        on_prepare(out, received);
      else
        on_propose(out, received);
      break;
    case message_kind::promise:
      on_promise(out, sender.incarnation, received);
      break;
    case message_kind::accept:
      if (attempt_ && attempt_->number == received.number && attempt_->proposed)
        on_accept(out, sender.incarnation);
      break;
    case message_kind::outdated:
      on_outdated(out, received);
      break;
    case message_kind::install:
    case message_kind::inquire:
      break;
  }
  return out;
}

/// Sends `install` of the current view.
void state_machine::send_decision(reaction& out, const member& receiver) const {
  if (!decision_)
    return; // the first view
  auto told = make(message_kind::install, decision_->number);
  told.proposals.push_back(*decision_);
  send_to(out, receiver, std::move(told));
}

void state_machine::on_prepare(reaction& out, const message& received) {
  const auto* const other = view_.find(received.number.proposer);
  if (!other || other->incarnation == self_)
    return;
  promised_ = received.number;
  attempt_.reset();
  answer_prepare(out);
  restart_timer(out);
}

/// Stops the replicas, or promises if they have stopped.
void state_machine::answer_prepare(reaction& out) {
  if (!has_stopped_) {
    if (!std::exchange(stopping_, true))
      out.emplace_back(stop{});
    return;
  }
  if (attempt_) {
    attempt_->promises.try_emplace(self_, promise{position_, accepted_});
    return propose_if_ready(out);
  }
  const auto* const other = view_.find(promised_.proposer);
  if (!other || other->incarnation == self_)
    return;
  auto answer = make(message_kind::promise, promised_);
  if (position_)
    answer.position.push_back(*position_);
  if (accepted_)
    answer.proposals.push_back(*accepted_);
  send_to(out, *other, std::move(answer));
}

void state_machine::on_propose(reaction& out, const message& received) {
  const auto* const other = view_.find(received.number.proposer);
  if (!other || other->incarnation == self_ || received.proposals.size() != 1
      || received.proposals.front().number != received.number
      || !is_possible(received.proposals.front().proposal))
    return;
  promised_ = received.number;
  attempt_.reset();
  accepted_ = received.proposals.front();
  send_to(out, *other, make(message_kind::accept, promised_));
  restart_timer(out);
}

void state_machine::on_install(reaction& out, const message& received) {
  if (received.proposals.size() != 1)
    return;
  const auto& decision = received.proposals.front();
  const auto& next = decision.proposal.next;
  if (next.view_id <= view_.view_id || !can_follow(next))
    return;
  take_effect(out, decision);
}

void state_machine::take_effect(reaction& out,
                                const numbered_proposal& decision) {
  const auto& next = decision.proposal.next;
  const bool left = leaving_.contains(self_);
  const auto before = std::exchange(view_, next);
  decision_ = decision;
  // The proposer tells all. It may not reach those that are excluded, so the
  // other members tell them, too, before they leave the job themselves.
  for (const auto& x : before.members)
    if (x.incarnation != self_ && !dead_.contains(x.incarnation)
        && (attempt_ || !contains_incarnation(next, x.incarnation)))
      send_decision(out, x);
  if (attempt_) {
    for (const auto& x : next.members)
      if (!contains_incarnation(before, x.incarnation))
        send_decision(out, x);
  }
  promised_ = {};
  accepted_.reset();
  attempt_.reset();
  living_.reset();
  leaving_.clear();
  no_lanes_.clear();
  wants_renewal_ = false;
  has_stopped_ = false;
  position_.reset();
  stopping_ = false;
  if (!find(self_)) {
    removed_ = true;
    out.emplace_back(removed{next, left});
    return;
  }
  forget_others();
  for (const auto& x : next.members)
    if (dead_candidates_.contains(x.incarnation))
      dead_.insert(x.incarnation);
  out.emplace_back(installed{decision.proposal});
  start_if_needed(out);
}

/// Keeps only what is known of members of the current view and of candidates.
void state_machine::forget_others() {
  const auto is_other = [this](std::uint64_t x) { return !find(x); };
  std::erase_if(dead_, is_other);
  for (auto* reports : {&unreachable_, &silent_}) {
    auto own = std::move((*reports)[self_]);
    std::erase_if(own, is_other);
    *reports = {{self_, std::move(own)}}; // the others report again
  }
  auto candidates = std::move(joining_[self_]);
  std::erase_if(candidates,
                [this](const member& x) { return find(x.incarnation); });
  joining_ = {{self_, std::move(candidates)}};
}

reaction state_machine::on_timeout() {
  reaction out;
  if (removed_)
    return out;
  if (attempt_) {
    send_attempt(out);
    report_silence(out, true);
    restart_timer(out);
  } else if (promised_.round > 0 || needs_change()) {
    if (is_proposer()) {
      begin_attempt(out);
      return out;
    }
    send_to_proposer(out, make(message_kind::request, {}));
    if (accepted_ && accepted_->number == promised_) {
      if (const auto* other = view_.find(promised_.proposer))
        send_to(out, *other, make(message_kind::accept, promised_));
    } else if (promised_.round > 0) {
      answer_prepare(out);
    }
    restart_timer(out);
  }
  return out;
}

// -- queries ------------------------------------------------------------------

/// True if a view of another process can follow the current one. It must place
/// the same replicas, and each process must have one task and keep it.
bool state_machine::can_follow(const view& next) const {
  incarnations seen;
  for (const auto& x : next.members) {
    const auto* const before = find(x.incarnation);
    if (!seen.insert(x.incarnation).second
        || (before && before->task != x.task))
      return false;
  }
  return !next.members.empty() && has_ascending_tasks(next)
         && replicas_of(next) == replicas_of(view_);
}

/// True if another process can make this proposal: the next view is possible,
/// and the source is a member that hosts replicas.
bool state_machine::is_possible(const proposal& offered) const {
  const auto* const source = view_.find(offered.source);
  return offered.next.view_id == view_.view_id + 1 && can_follow(offered.next)
         && source && source->capacity > 0;
}

bool state_machine::is_majority(const incarnations& votes) const {
  const auto members = view_.members.size();
  const auto voted_or_dead = [&](const member& x) {
    return votes.contains(x.incarnation) || dead_.contains(x.incarnation);
  };
  if (2 * votes.size() > members
      || (2 * votes.size() == members
          && std::ranges::all_of(view_.members, voted_or_dead)))
    return true;
  const auto voted = [&](std::uint64_t x) { return votes.contains(x); };
  return living_ && std::ranges::all_of(*living_, voted);
}

change_reasons state_machine::reasons() const {
  change_reasons out;
  if (promised_.round > 0)
    out.proposer = promised_.proposer;
  out.renewal = wants_renewal_;
  for (const auto& x : view_.members) {
    if (dead_.contains(x.incarnation))
      out.dead.push_back(x.task);
    if (leaving_.contains(x.incarnation))
      out.leaving.push_back(x.task);
    if (no_lanes_.contains(x.incarnation))
      out.without_lanes.push_back(x.task);
    const auto missed = unreachable_.find(x.incarnation);
    if (missed != unreachable_.end())
      for (const auto& y : view_.members)
        if (missed->second.contains(y.incarnation))
          out.unreachable.emplace_back(x.task, y.task);
  }
  std::set<std::uint32_t> joining; // each candidate has asked several members
  for (const auto& [teller, candidates] : joining_)
    for (const auto& x : candidates)
      joining.insert(x.task);
  out.joining.assign(joining.begin(), joining.end());
  return out;
}

bool state_machine::misses_members() const {
  return !dead_.empty() || std::ranges::any_of(unreachable_, [](const auto& x) {
    return !x.second.empty();
  });
}

bool state_machine::is_reachable(std::uint64_t incarnation) const {
  if (dead_.contains(incarnation))
    return false;
  const auto own = unreachable_.find(self_);
  return own == unreachable_.end() || !own->second.contains(incarnation);
}

const member* state_machine::find(std::uint64_t incarnation) const {
  const auto found =
    std::ranges::find(view_.members, incarnation, &member::incarnation);
  return found == view_.members.end() ? nullptr : &*found;
}

/// Returns the lowest member that can belong to the next view, or this process.
/// A member that others cannot reach may not get a majority.
const member& state_machine::proposer() const {
  const auto gone = excluded();
  return *std::ranges::find_if(view_.members, [&](const member& x) {
    return x.incarnation == self_ || !gone.contains(x.incarnation);
  });
}

message state_machine::make(message_kind kind, const ballot& number) const {
  message out;
  out.kind = kind;
  out.view_id = view_.view_id;
  out.number = number;
  if (kind != message_kind::install && kind != message_kind::inquire)
    out.known = known();
  return out;
}

void state_machine::send_to(reaction& out, const member& receiver,
                            message what) {
  out.emplace_back(
    send{{receiver.task, receiver.incarnation}, std::move(what)});
}

void state_machine::send_to_proposer(reaction& out, message what) const {
  send_to(out, proposer(), std::move(what));
}

/// The process with the lowest task has the shortest time, so that processes
/// that all should propose do not disturb each other for ever.
void state_machine::restart_timer(reaction& out) const {
  const auto position =
    std::ranges::find(view_.members, self_, &member::incarnation)
    - view_.members.begin();
  out.emplace_back(set_timer{1 + static_cast<std::uint32_t>(position)});
}

} // namespace troupe::view_change
