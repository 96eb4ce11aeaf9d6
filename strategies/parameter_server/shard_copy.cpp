#include "troupe/strategies/parameter_server/shard_copy.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace troupe::parameter_server {

namespace {

/// Intervals after which a snapshot that was not stored is sent again: at
/// first, and at most.
constexpr std::uint32_t min_snapshot_intervals = 8,
                        max_snapshot_intervals = 1024;

bool is_ascending(const std::vector<std::uint32_t>& all) {
  return std::ranges::adjacent_find(all, std::greater_equal{}) == all.end();
}

bool is_synchronous(const part_contributions& part) {
  return part.rule().kind == consistency_kind::synchronous;
}

/// True if the parts of a shard can have these as the last decision.
bool is_last_decision(const std::vector<decision>& decided,
                      const std::vector<part_contributions>& parts) {
  const auto steps = decided.empty() ? 0 : decided[0].step + 1;
  return decided.size() <= 1
         && (decided.empty() || is_ascending(decided[0].contributors))
         && std::ranges::all_of(parts, [&](const part_contributions& x) {
              return !is_synchronous(x) || x.version() == steps;
            });
}

} // namespace

shard_copy::shard_copy(std::uint64_t self,
                       const std::vector<consistency>& parts,
                       std::uint32_t replicas, const shard_options& options)
  : self_{self},
    replicas_{replicas},
    options_{options},
    rules_{parts},
    clients_{options.clients} {
  clear();
}

/// Drops all state.
void shard_copy::reset(shard_reaction& out) {
  if (has_state_ || applied_ > 0)
    out.push_back(drop_state{});
  clear();
}

void shard_copy::clear() {
  parts_.clear();
  for (std::uint32_t i = 0; i < rules_.size(); ++i)
    parts_.emplace_back(i, rules_[i], replicas_);
  applied_ = last_ = state_term_ = term_begin_ = 0;
  decided_.clear();
  clients_.clear();
  log_.clear();
  log_bytes_ = 0;
  pending_pushes_.clear();
  pending_commands_.clear();
  pending_reads_.clear();
  pending_decisions_.clear();
  followers_.clear();
  has_state_ = is_in_sync_ = false;
}

shard_reaction shard_copy::on_view(const shard_view& next) {
  if (next.view_id <= view_.view_id)
    return {};
  const bool has_served = serves();
  const auto before = std::exchange(view_, next);
  const auto role_before = std::exchange(
    role_, next.primary == self_                             ? role::primary
           : std::ranges::binary_search(next.backups, self_) ? role::backup
                                                             : role::none);
  shard_reaction out;
  pulls_.clear();
  awaited_workers_.clear();
  if (role_ == role::backup && role_before == role::backup
      && (next.term == before.term || next.previous_term == state_term_)) {
    // The primary did not wait for it in a view in which it was no backup.
    is_in_sync_ = is_in_sync_ && next.term == before.term
                  && next.view_id == before.view_id + 1;
    if (follows() || !has_state_)
      out.push_back(send_stored{view_.primary, own_position()});
  } else if (role_ != role::primary) {
    // The state of this copy may not be that of the primary.
    reset(out);
    if (role_ == role::backup)
      out.push_back(send_stored{view_.primary, own_position()});
  } else if (role_before == role::primary && next.term == before.term) {
    if (!has_served)
      awaited_workers_ = {next.workers.begin(), next.workers.end()};
    lead(out);
  } else if (next.previous_term == 0
             || (is_in_sync_ && before.term == next.previous_term
                 && before.view_id + 1 == next.term)) {
    if (next.previous_term != 0)
      awaited_workers_ = {next.workers.begin(), next.workers.end()};
    last_ = term_begin_ = applied_;
    lead(out);
  } else {
    role_ = role::none;
    reset(out);
    out.push_back(protocol_error{
      "a view makes a copy of a shard the primary that lacks updates"});
  }
  return out;
}

/// Begins a view as the primary.
void shard_copy::lead(shard_reaction& out) {
  std::erase_if(followers_, [&](const auto& x) {
    return !std::ranges::binary_search(view_.backups, x.first);
  });
  state_term_ = view_.term;
  for (auto& one : log_)
    one.record.view_id = view_.view_id;
  for (const auto task : view_.backups) {
    const auto [at, is_new] = followers_.try_emplace(task);
    at->second.has_answered = at->second.knows_it_is_in_sync = false;
    if (is_new)
      at->second.stored = log_begin() - 1;
    at->second.snapshot_intervals = 0;
    if (at->second.is_awaited)
      send_log(out, task, at->second);
    else
      out.push_back(send_inquire{task, question()});
  }
  apply_stored(out);
  if (awaited_workers_.empty())
    out.push_back(send_serving{view_.workers, {view_.view_id}});
}

/// Sends a snapshot, and then all records that follow it.
void shard_copy::follow_anew(shard_reaction& out, std::uint64_t backup,
                             follower& to) {
  if (to.snapshot_intervals == 0)
    to.stored = applied_;
  to.snapshot_intervals = std::clamp(
    2 * to.snapshot_intervals, min_snapshot_intervals, max_snapshot_intervals);
  to.intervals_left = to.snapshot_intervals;
  snapshot made{view_.view_id, applied_, {}, decided_, clients_.save()};
  std::vector<payload> gradients;
  for (const auto& one : parts_) {
    made.parts.push_back(one.state());
    std::ranges::move(one.waiting_gradients(), std::back_inserter(gradients));
  }
  out.push_back(send_snapshot{backup, std::move(made), std::move(gradients)});
  send_log(out, backup, to);
}

/// Sends all records that the backup has not stored.
void shard_copy::send_log(shard_reaction& out, std::uint64_t backup,
                          const follower& to) const {
  for (const auto& one : log_)
    if (one.record.sequence > to.stored)
      out.push_back(send_record{backup, one.record, one.gradient});
}

shard_reaction shard_copy::on(std::uint64_t worker, const push& received,
                              const payload& gradient) {
  if (!is_primary() || received.view_id > view_.view_id)
    return {}; // it is sent again
  if (received.view_id < view_.view_id)
    return {answer_push{worker, refusal(received.id, push_result::stale_view)}};
  if (!serves())
    return {};
  const auto& id = received.id;
  if (id.replica >= replicas_)
    return {answer_push{worker, refusal(id, push_result::unknown_replica)}};
  if (id.part >= parts_.size())
    return {answer_push{worker, refusal(id, push_result::unknown_part)}};
  if (pending_pushes_.contains(id))
    return {}; // answered when all backups have it
  if (parts_[id.part].is_decided(id.step))
    return {answer_push{worker, refusal(id, push_result::decided)}};
  const auto result = parts_[id.part].check(id.replica, id.step);
  if (result != push_result::accepted)
    return {answer_push{worker, refusal(id, result)}};
  if (!has_room_for(gradient.bytes))
    return {}; // it is sent again
  shard_reaction out;
  pending_pushes_.insert(id);
  append(out, {{view_.view_id, 0, {received}, {}}, gradient, worker});
  return out;
}

shard_reaction shard_copy::on(const decision& received) {
  if (!serves() || received.view_id != view_.view_id)
    return {};
  const auto is_decided = [&](const part_contributions& x) {
    return !is_synchronous(x) || x.is_decided(received.step);
  };
  if (!decided_.empty() && decided_[0].step == received.step
      && decided_[0].contributors != received.contributors)
    return {
      protocol_error{"two decisions on step " + std::to_string(received.step)}};
  if (std::ranges::all_of(parts_, is_decided))
    return {answer_decision{{view_.view_id, received.step}}};
  if (pending_decisions_.contains(received.step) || !has_room_for(0))
    return {};
  const bool is_possible =
    is_ascending(received.contributors)
    && std::ranges::all_of(parts_, [&](const part_contributions& x) {
         return !is_synchronous(x) || x.can_decide(received);
       });
  if (!is_possible)
    return {protocol_error{"a decision on step " + std::to_string(received.step)
                           + " names contributions that were not made"}};
  shard_reaction out;
  pending_decisions_.insert(received.step);
  append(out, {{view_.view_id, 0, {}, {received}}, {}});
  return out;
}

shard_reaction shard_copy::on(const decision_query& received) {
  if (!serves() || received.view_id != view_.view_id
      || !pending_decisions_.empty())
    return {}; // it is sent again
  return {answer_decision_query{{view_.view_id, decided_}}};
}

shard_reaction shard_copy::on(const command& received, const payload& content) {
  const auto refuse = [&](command_refusal why) -> shard_reaction {
    return {refuse_command{received.id, received.is_read, why}};
  };
  if (!serves())
    return refuse(command_refusal::not_serving);
  if (received.answered_below > received.id.number)
    return {}; // impossible, so no backup would take it
  auto& pending = received.is_read ? pending_reads_ : pending_commands_;
  if (pending.contains(received.id))
    return {}; // answered when all backups have it
  if (!received.is_read) {
    switch (clients_.find(received)) {
      case client_sessions::state::done:
        return {answer_command{received.id}};
      case client_sessions::state::ahead:
        return refuse(command_refusal::busy);
      case client_sessions::state::forgotten:
        // A primary that was replaced can lack the client. So this is answered
        // when all backups have it, too.
      case client_sessions::state::is_new:
        break;
    }
  }
  if (!has_room_for(content.bytes))
    return refuse(command_refusal::busy);
  shard_reaction out;
  pending.insert(received.id);
  append(out, {{view_.view_id, 0, {}, {}, 0, {received}}, content});
  return out;
}

/// Appends a record to the log, and sends it to the backups.
void shard_copy::append(shard_reaction& out, entry&& added) {
  added.record.log_begin = log_begin();
  added.record.sequence = ++last_;
  log_bytes_ += added.gradient.bytes;
  log_.push_back(std::move(added));
  for (const auto& [backup, one] : followers_)
    if (one.is_awaited || one.snapshot_intervals > 0)
      out.push_back(
        send_record{backup, log_.back().record, log_.back().gradient});
  apply_stored(out);
}

shard_reaction shard_copy::on(const stored& received) {
  const auto found = followers_.find(received.backup);
  if (!is_primary() || received.view_id != view_.view_id
      || found == followers_.end() || received.sequence > last_)
    return {};
  auto& from = found->second;
  shard_reaction out;
  if (!received.has_state && from.has_answered)
    return out; // it was sent before the snapshot arrived
  from.has_answered = received.has_state;
  if (!received.has_state)
    from.is_awaited = false; // it was no backup in a view that was missed here
  if (!from.is_awaited
      && (!received.has_state || received.sequence < from.stored)) {
    if (from.snapshot_intervals == 0)
      follow_anew(out, received.backup, from);
    return out;
  }
  from.stored = std::max(from.stored, received.sequence);
  if (!from.is_awaited) {
    from.is_awaited = true;
    from.in_sync_from = applied_;
    if (from.snapshot_intervals == 0) // the log was not sent either
      send_log(out, received.backup, from);
  }
  from.knows_it_is_in_sync = received.is_in_sync;
  tell_if_in_sync(out, received.backup, from);
  apply_stored(out);
  return out;
}

/// Tells a backup that it is in sync, unless it has answered that it knows.
void shard_copy::tell_if_in_sync(shard_reaction& out, std::uint64_t backup,
                                 const follower& to) const {
  if (to.has_answered && to.is_awaited && to.stored >= to.in_sync_from
      && !to.knows_it_is_in_sync)
    out.push_back(send_in_sync{backup, {view_.view_id}});
}

/// Applies all records that all backups have, answers them, and answers the
/// pulls that wait for them.
void shard_copy::apply_stored(shard_reaction& out) {
  auto until = last_;
  for (const auto& [unused, one] : followers_)
    if (one.is_awaited)
      until = std::min(until, one.stored);
  for (const auto& one : log_) {
    const auto& next = one.record;
    if (next.sequence <= applied_ || next.sequence > until)
      continue;
    const bool is_late =
      !next.pushed.empty()
      && parts_[next.pushed[0].id.part].is_decided(next.pushed[0].id.step);
    perform(out, next, one.gradient);
    if (!next.pushed.empty()) {
      const auto& id = next.pushed[0].id;
      pending_pushes_.erase(id);
      out.push_back(answer_push{
        one.worker,
        refusal(id, is_late ? push_result::decided : push_result::accepted)});
    } else if (!next.decided.empty()) {
      const auto step = next.decided[0].step;
      pending_decisions_.erase(step);
      out.push_back(answer_decision{{view_.view_id, step}});
    } else {
      answer(out, one);
    }
  }
  trim_log();
  answer_pulls(out);
}

/// Answers a command that was performed, or a read.
void shard_copy::answer(shard_reaction& out, const entry& one) {
  const auto& given = one.record.commands[0];
  if (given.is_read) {
    pending_reads_.erase(given.id);
    out.push_back(answer_read{given.id, one.gradient});
    return;
  }
  pending_commands_.erase(given.id);
  if (clients_.find(given) == client_sessions::state::done)
    out.push_back(answer_command{given.id});
  else // its client has given it up
    out.push_back(refuse_command{given.id, false, command_refusal::forgotten});
}

/// Applies a record.
void shard_copy::perform(shard_reaction& out, const record& next,
                         const payload& gradient) {
  applied_ = next.sequence;
  if (!next.pushed.empty()) {
    const auto& given = next.pushed[0];
    if (auto made = parts_[given.id.part].add({given, gradient}))
      out.push_back(apply{std::move(*made)});
    return;
  }
  if (!next.commands.empty())
    return perform(out, next.commands[0], gradient);
  decided_ = next.decided;
  for (auto& one : parts_)
    if (is_synchronous(one))
      out.push_back(apply{one.decide(next.decided[0])});
}

/// Performs a command, unless it has taken effect before or its client has
/// given it up. A read changes nothing.
void shard_copy::perform(shard_reaction& out, const command& next,
                         const payload& content) {
  if (next.is_read || clients_.find(next) != client_sessions::state::is_new)
    return;
  for (const auto client : clients_.add(next, applied_))
    out.push_back(forget_client{client});
  out.push_back(apply_command{next, content});
}

/// True if a record with a gradient of this size can be appended to the log.
bool shard_copy::has_room_for(std::uint64_t bytes) const {
  return log_.empty()
         || (log_.size() < options_.max_log_records
             && log_bytes_ <= options_.max_log_bytes
             && bytes <= options_.max_log_bytes - log_bytes_);
}

/// Forgets the records that all backups have stored.
void shard_copy::trim_log() {
  auto until = applied_;
  for (const auto& [unused, one] : followers_)
    until = std::min(until, one.stored);
  trim_log(until + 1);
}

/// Forgets the records before this one.
void shard_copy::trim_log(std::uint64_t begin) {
  while (!log_.empty() && log_.front().record.sequence < begin) {
    log_bytes_ -= log_.front().gradient.bytes;
    log_.pop_front();
  }
}

shard_reaction shard_copy::on_timeout() {
  shard_reaction out;
  if (!is_primary())
    return out;
  for (auto& [backup, one] : followers_)
    if (!one.is_awaited && one.snapshot_intervals > 0) {
      if (--one.intervals_left == 0)
        follow_anew(out, backup, one);
    } else if (!one.is_awaited || !one.has_answered) {
      out.push_back(send_inquire{backup, question()});
    } else {
      send_log(out, backup, one);
      tell_if_in_sync(out, backup, one);
    }
  apply_stored(out);
  return out;
}

shard_reaction shard_copy::on(const accepted& received) {
  shard_reaction out;
  if (!is_primary() || received.view_id != view_.view_id)
    return out;
  if (serves()) {
    out.push_back(send_serving{{received.worker}, {view_.view_id}});
    return out;
  }
  awaited_workers_.erase(received.worker);
  if (serves())
    out.push_back(send_serving{view_.workers, {view_.view_id}});
  return out;
}

shard_reaction shard_copy::on(std::uint64_t worker, const pull& received) {
  if (!serves() || received.view_id != view_.view_id)
    return {};
  if (!is_known(received))
    return {protocol_error{"a pull names an unknown replica or part"}};
  auto& waiting = pulls_[received.replica];
  if (waiting.worker == worker && received.number < waiting.wanted.number)
    return {}; // an older one that was late
  waiting = {worker, received};
  shard_reaction out;
  answer_pulls(out);
  return out;
}

std::optional<pulled> shard_copy::answer_in_place(const pull& wanted) const {
  if (!serves() || wanted.view_id != view_.view_id || !is_known(wanted)
      || !can_read(wanted))
    return {};
  return answer_to(wanted);
}

/// True if the replica and the parts of a pull exist.
bool shard_copy::is_known(const pull& wanted) const {
  return wanted.replica < replicas_ && is_ascending(wanted.parts)
         && std::ranges::all_of(wanted.parts, [&](std::uint32_t part) {
              return part < parts_.size();
            });
}

void shard_copy::answer_pulls(shard_reaction& out) {
  if (!serves())
    return;
  std::erase_if(pulls_, [&](const auto& one) {
    const auto& [worker, wanted] = one.second;
    if (!can_read(wanted))
      return false;
    out.push_back(answer_pull{worker, wanted.parts, answer_to(wanted)});
    return true;
  });
}

bool shard_copy::can_read(const pull& wanted) const {
  return std::ranges::all_of(wanted.parts, [&](std::uint32_t part) {
    return parts_[part].can_read(wanted.replica, wanted.step);
  });
}

pulled shard_copy::answer_to(const pull& wanted) const {
  pulled out{view_.view_id, wanted.number, wanted.replica, 0, {}};
  for (const auto part : wanted.parts)
    out.versions.push_back(parts_[part].version());
  auto next = parts_.empty() ? 0 : parts_[0].next_step(wanted.replica);
  for (const auto& one : parts_)
    next = std::min(next, one.next_step(wanted.replica));
  out.next_step = next;
  return out;
}

shard_reaction shard_copy::on(const record& received, const payload& gradient) {
  if (role_ != role::backup || received.view_id != view_.view_id)
    return {};
  shard_reaction out;
  if (follows() && received.sequence == applied_ + 1) {
    const bool holds_one = received.pushed.size() + received.decided.size()
                             + received.commands.size()
                           == 1;
    const auto is_possible = [&] {
      if (!received.commands.empty())
        return received.commands[0].answered_below
               <= received.commands[0].id.number;
      if (received.pushed.empty())
        return is_ascending(received.decided[0].contributors)
               && std::ranges::all_of(parts_, [&](const part_contributions& x) {
                    return !is_synchronous(x)
                           || x.can_decide(received.decided[0]);
                  });
      const auto& id = received.pushed[0].id;
      return id.replica < replicas_ && id.part < parts_.size()
             && (parts_[id.part].is_decided(id.step)
                 || parts_[id.part].check(id.replica, id.step)
                      == push_result::accepted);
    };
    if (!holds_one || !is_possible())
      return {protocol_error{"record " + std::to_string(received.sequence)
                             + " of a shard cannot follow the one before"}};
    perform(out, received, gradient);
    log_.push_back({received, gradient});
    log_bytes_ += gradient.bytes;
    trim_log(received.log_begin);
  }
  out.push_back(send_stored{view_.primary, own_position()});
  return out;
}

shard_reaction shard_copy::on(const inquire& received) {
  if (role_ != role::backup || received.view_id != view_.view_id)
    return {};
  shard_reaction out;
  if (has_state_ && !follows()) {
    // Both have followed one primary, so the state of the one that has fewer
    // records is that of the other one at an earlier time.
    if (applied_ + 1 >= received.log_begin && applied_ <= received.term_begin)
      state_term_ = view_.term;
    else
      reset(out);
  }
  out.push_back(send_stored{view_.primary, own_position()});
  return out;
}

shard_reaction shard_copy::on(const in_sync& received) {
  if (role_ != role::backup || received.view_id != view_.view_id || !follows())
    return {};
  is_in_sync_ = true;
  return {send_stored{view_.primary, own_position()}};
}

shard_reaction shard_copy::on(const snapshot& received,
                              const std::vector<payload>& gradients) {
  if (role_ != role::backup || received.view_id != view_.view_id)
    return {};
  shard_reaction out;
  if (!follows() || received.sequence > applied_) {
    auto restored = parts_;
    auto clients = clients_;
    std::size_t at = 0;
    bool is_possible = received.parts.size() == parts_.size()
                       && clients.restore(received.clients, received.sequence);
    for (std::size_t i = 0; is_possible && i < restored.size(); ++i) {
      const auto count = received.parts[i].waiting.size();
      is_possible = count <= gradients.size() - at
                    && restored[i].restore(received.parts[i],
                                           {gradients.data() + at, count});
      at += count;
    }
    if (!is_possible || at != gradients.size()
        || !is_last_decision(received.decided, restored))
      return {protocol_error{"a snapshot of a shard has other parts or an "
                             "impossible state"}};
    parts_ = std::move(restored);
    clients_ = std::move(clients);
    decided_ = received.decided;
    applied_ = received.sequence;
    has_state_ = true;
    state_term_ = view_.term;
    log_.clear();
    log_bytes_ = 0;
    out.push_back(install_snapshot{});
  }
  out.push_back(send_stored{view_.primary, own_position()});
  return out;
}

} // namespace troupe::parameter_server
