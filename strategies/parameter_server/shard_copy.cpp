#include "troupe/strategies/parameter_server/shard_copy.hpp"

#include "troupe/strategies/placement.hpp"

#include <algorithm>
#include <functional>
#include <limits>
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

/// Bytes of a record of the log beside its gradient.
std::uint64_t bytes_of(const record& x) {
  std::uint64_t out = 0;
  for (const auto& given : x.commands)
    for (const auto& one : given.begins)
      out += one.parts.size() * sizeof(trained_part);
  return out;
}

/// True if the command begins no training, or one that is possible.
bool can_begin(const command& given) {
  return given.begins.size() <= (given.is_read ? 0u : 1u)
         && std::ranges::all_of(given.begins, is_possible);
}

/// True if the parts of a training can have these as the last decision.
bool is_last_decision(const std::vector<decision>& decided,
                      const training& current,
                      const std::vector<part_contributions>& parts) {
  if (decided.empty())
    return std::ranges::all_of(parts, [](const part_contributions& x) {
      return !is_synchronous(x) || x.version() == 0;
    });
  const auto& last = decided[0];
  return decided.size() == 1 && last.training == current.number
         && is_ascending(last.contributors)
         && (last.contributors.empty()
             || last.contributors.back() < current.replicas)
         && std::ranges::all_of(parts, [&](const part_contributions& x) {
              return !is_synchronous(x)
                     || (x.version() > 0 && x.version() - 1 == last.step);
            });
}

/// True if the states of a snapshot can be those of its training.
bool has_states_of_training(const snapshot& x) {
  return is_possible(x.current) && x.parts.size() == x.current.parts.size()
         && std::ranges::all_of(x.parts, [&](const part_state& one) {
              return one.clocks.size() == x.current.replicas
                     && std::ranges::all_of(
                       one.waiting, [&](const push& given) {
                         return given.training == x.current.number;
                       });
            });
}

std::vector<part_contributions> parts_of(const training& x) {
  std::vector<part_contributions> out;
  for (std::uint32_t i = 0; i < x.parts.size(); ++i)
    out.emplace_back(i, x.parts[i].rule, x.replicas);
  return out;
}

} // namespace

bool is_possible(const training& x) {
  const auto ascend = [](const trained_part& a, const trained_part& b) {
    return a.part < b.part;
  };
  return x.replicas <= max_replicas && (x.replicas > 0 || x.parts.empty())
         && x.parts.size() * std::uint64_t{x.replicas} <= max_clocks
         && std::ranges::adjacent_find(x.parts, std::not_fn(ascend))
              == x.parts.end()
         && std::ranges::all_of(x.parts, [&](const trained_part& one) {
              return one.rule.backup_workers < x.replicas;
            });
}

shard_copy::shard_copy(std::uint64_t self, const training& first,
                       const shard_options& options)
  : self_{self}, first_{first}, options_{options}, clients_{options.clients} {
  clear();
}

/// Drops all state.
void shard_copy::reset(shard_reaction& out) {
  if (has_state_ || applied_ > 0)
    out.push_back(drop_state{});
  clear();
}

void shard_copy::clear() {
  begin(first_);
  applied_ = last_ = state_term_ = term_begin_ = 0;
  clients_.clear();
  log_.clear();
  log_bytes_ = 0;
  pending_pushes_.clear();
  pending_commands_.clear();
  pending_reads_.clear();
  pending_decisions_.clear();
  pending_query_.reset();
  followers_.clear();
  has_state_ = is_in_sync_ = false;
}

/// Begins a training in place of the one before.
void shard_copy::begin(const training& next) {
  training_ = next;
  parts_ = parts_of(next);
  decided_.clear();
  chief_ = 0;
  pulls_.clear();
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
  snapshot made{view_.view_id,   applied_,  {},    decided_,
                clients_.save(), training_, chief_};
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
  const auto refuse = [&](push_result why) -> shard_reaction {
    return {answer_push{worker, answer_to(received, why)}};
  };
  if (received.view_id < view_.view_id)
    return refuse(push_result::stale_view);
  if (!serves() || received.training > training_.number)
    return {}; // it is sent again
  if (received.training < training_.number)
    return refuse(push_result::training_ended);
  const auto& id = received.id;
  if (id.replica >= training_.replicas)
    return refuse(push_result::unknown_replica);
  if (id.part >= parts_.size())
    return refuse(push_result::unknown_part);
  if (pending_pushes_.contains(id))
    return {}; // answered when all backups have it
  if (parts_[id.part].is_decided(id.step))
    return refuse(push_result::decided);
  const auto result = parts_[id.part].check(id.replica, id.step);
  if (result != push_result::accepted)
    return refuse(result);
  if (!has_room_for(gradient.bytes))
    return {}; // it is sent again
  shard_reaction out;
  pending_pushes_.insert(id);
  append(out, {{view_.view_id, 0, {received}, {}}, gradient, worker});
  return out;
}

bool shard_copy::takes(const push& given) const {
  const auto& id = given.id;
  return serves() && given.view_id == view_.view_id
         && given.training == training_.number
         && id.replica < training_.replicas && id.part < parts_.size()
         && !pending_pushes_.contains(id)
         && !parts_[id.part].is_decided(id.step)
         && parts_[id.part].check(id.replica, id.step) == push_result::accepted;
}

shard_reaction shard_copy::on(const decision& received) {
  if (!serves() || received.view_id != view_.view_id
      || received.training != training_.number)
    return {};
  const auto last = last_chief();
  if (received.chief < last)
    return {answer_to(received)};
  if (received.chief > last || last == 0)
    return {
      protocol_error{"a decision of a chief that has not asked for the last"}};
  const auto is_decided = [&](const part_contributions& x) {
    return !is_synchronous(x) || x.is_decided(received.step);
  };
  if (!decided_.empty() && decided_[0].step == received.step
      && decided_[0].contributors != received.contributors)
    return {
      protocol_error{"two decisions on step " + std::to_string(received.step)}};
  if (std::ranges::all_of(parts_, is_decided))
    return {answer_to(received)};
  if (awaits_decision(received.training, received.step) || !has_room_for(0))
    return {};
  const auto& named = received.contributors;
  const auto suffices = [&](const part_contributions& x) {
    return !is_synchronous(x)
           || named.size() + x.rule().backup_workers >= training_.replicas;
  };
  if (named.empty() || !is_ascending(named)
      || named.back() >= training_.replicas
      || !std::ranges::all_of(parts_, suffices))
    return {protocol_error{"a decision on step " + std::to_string(received.step)
                           + " names impossible contributors"}};
  const auto has_contributions = [&](const part_contributions& x) {
    return !is_synchronous(x) || x.can_decide(received);
  };
  if (!std::ranges::all_of(parts_, has_contributions))
    return {}; // it is sent again to the primary that has them
  shard_reaction out;
  pending_decisions_.insert({received.training, received.step});
  append(out, {{view_.view_id, 0, {}, {received}}, {}});
  return out;
}

shard_reaction shard_copy::on(const decision_query& received) {
  if (!serves() || received.view_id != view_.view_id
      || received.training != training_.number || pending_query_)
    return {}; // it is sent again, or answered when all backups have it
  if (received.chief == 0)
    return {protocol_error{"a chief has no number"}};
  if (received.chief <= chief_)
    return {answer_to(received)};
  shard_reaction out;
  if (!has_room_for(0))
    return out; // it is sent again
  pending_query_ = {received.training, received.chief};
  append(out, {{view_.view_id, 0, {}, {}, 0, {}, {received}}, {}});
  return out;
}

shard_reaction shard_copy::on(const command& received, const payload& content) {
  const auto refuse = [&](command_refusal why) -> shard_reaction {
    return {refuse_command{received.id, received.is_read, why}};
  };
  if (!serves())
    return refuse(command_refusal::not_serving);
  if (received.answered_below > received.id.number)
    return {}; // impossible, so no backup would take it
  if (!can_begin(received))
    return refuse(command_refusal::impossible_training);
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
        break;
      case client_sessions::state::is_new:
        if (is_superseded(received))
          return refuse(command_refusal::impossible_training);
        break;
    }
  }
  record made{view_.view_id, 0, {}, {}, 0, {received}};
  if (!has_room_for(content.bytes + bytes_of(made)))
    return refuse(command_refusal::busy);
  shard_reaction out;
  pending.insert(received.id);
  append(out, {std::move(made), content});
  return out;
}

/// Appends a record to the log, and sends it to the backups.
void shard_copy::append(shard_reaction& out, entry&& added) {
  added.record.log_begin = log_begin();
  added.record.sequence = ++last_;
  log_bytes_ += added.gradient.bytes + bytes_of(added.record);
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
    const auto result = result_of(next);
    perform(out, next, one.gradient);
    if (!next.pushed.empty()) {
      const auto& given = next.pushed[0];
      pending_pushes_.erase(given.id);
      out.push_back(answer_push{one.worker, answer_to(given, result)});
    } else if (!next.decided.empty()) {
      const auto& given = next.decided[0];
      pending_decisions_.erase({given.training, given.step});
      if (result == push_result::accepted)
        out.push_back(answer_to(given));
    } else if (!next.queries.empty()) {
      const auto& given = next.queries[0];
      pending_query_.reset();
      if (given.training == training_.number)
        out.push_back(answer_to(given));
    } else {
      answer(out, one);
    }
  }
  trim_log();
  answer_pulls(out);
}

/// What becomes of a record that is performed next. `training_ended`,
/// `decided`: it has no effect.
push_result shard_copy::result_of(const record& next) const {
  for (const auto& one : next.decided)
    if (one.training != training_.number)
      return push_result::training_ended;
  for (const auto& one : next.pushed) {
    if (one.training != training_.number)
      return push_result::training_ended;
    if (parts_[one.id.part].is_decided(one.id.step))
      return push_result::decided;
  }
  return push_result::accepted;
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
  const auto found = clients_.find(given);
  if (found == client_sessions::state::done)
    out.push_back(answer_command{given.id});
  else // its client has given it up, or a later training has begun
    out.push_back(refuse_command{given.id, false,
                                 found == client_sessions::state::is_new
                                   ? command_refusal::impossible_training
                                   : command_refusal::forgotten});
}

/// Applies a record.
void shard_copy::perform(shard_reaction& out, const record& next,
                         const payload& gradient) {
  applied_ = next.sequence;
  if (!next.commands.empty())
    return perform(out, next.commands[0], gradient);
  for (const auto& given : next.queries)
    if (given.training == training_.number)
      chief_ = std::max(chief_, given.chief);
  if (result_of(next) != push_result::accepted)
    return;
  for (const auto& given : next.pushed)
    if (auto made = parts_[given.id.part].add({given, gradient}))
      out.push_back(apply{std::move(*made)});
  if (next.decided.empty())
    return;
  decided_ = next.decided;
  for (auto& one : parts_)
    if (is_synchronous(one))
      out.push_back(apply{one.decide(next.decided[0])});
}

/// True if a later training than that of the command has begun.
bool shard_copy::is_superseded(const command& given) const {
  return !given.begins.empty() && given.begins[0].number <= training_.number;
}

/// Performs a command, unless it has taken effect before, its client has given
/// it up, or a later training has begun. A read changes nothing.
void shard_copy::perform(shard_reaction& out, const command& next,
                         const payload& content) {
  if (next.is_read || clients_.find(next) != client_sessions::state::is_new
      || is_superseded(next))
    return;
  for (const auto client : clients_.add(next, applied_))
    out.push_back(forget_client{client});
  out.push_back(apply_command{next, content});
  for (const auto& one : next.begins) {
    begin(one);
    out.push_back(begin_training{one});
  }
}

/// Number of the last chief of the training whose query is in the log.
std::uint64_t shard_copy::last_chief() const {
  return pending_query_ && pending_query_->first == training_.number
           ? std::max(chief_, pending_query_->second)
           : chief_;
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
    log_bytes_ -= log_.front().gradient.bytes + bytes_of(log_.front().record);
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
  if (!serves() || received.view_id != view_.view_id
      || received.training != training_.number)
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
  if (!serves() || wanted.view_id != view_.view_id
      || wanted.training != training_.number || !is_known(wanted)
      || !can_read(wanted))
    return {};
  return answer_to(wanted);
}

/// True if the replica and the parts of a pull exist.
bool shard_copy::is_known(const pull& wanted) const {
  return wanted.replica < training_.replicas && is_ascending(wanted.parts)
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
  pulled out{view_.view_id,  wanted.number, wanted.replica, 0, {},
             wanted.training};
  for (const auto part : wanted.parts)
    out.versions.push_back(parts_[part].version());
  out.next_step = std::numeric_limits<std::uint64_t>::max();
  for (const auto& one : parts_)
    out.next_step = std::min(out.next_step, one.next_step(wanted.replica));
  return out;
}

shard_reaction shard_copy::on(const record& received, const payload& gradient) {
  if (role_ != role::backup || received.view_id != view_.view_id)
    return {};
  shard_reaction out;
  if (follows() && received.sequence == applied_ + 1) {
    if (!can_follow(received))
      return {protocol_error{"record " + std::to_string(received.sequence)
                             + " of a shard cannot follow the one before"}};
    perform(out, received, gradient);
    log_.push_back({received, gradient});
    log_bytes_ += gradient.bytes + bytes_of(received);
    trim_log(received.log_begin);
  }
  out.push_back(send_stored{view_.primary, own_position()});
  return out;
}

/// True if a record can be the next one.
bool shard_copy::can_follow(const record& next) const {
  if (next.pushed.size() + next.decided.size() + next.commands.size()
        + next.queries.size()
      != 1)
    return false;
  if (!next.queries.empty())
    return next.queries[0].training <= training_.number;
  if (!next.commands.empty()) {
    const auto& given = next.commands[0];
    return given.answered_below <= given.id.number && can_begin(given);
  }
  if (!next.decided.empty()) {
    const auto& given = next.decided[0];
    return given.training < training_.number
           || (given.training == training_.number
               && is_ascending(given.contributors)
               && std::ranges::all_of(parts_, [&](const auto& x) {
                    return !is_synchronous(x) || x.can_decide(given);
                  }));
  }
  const auto& given = next.pushed[0];
  const auto& id = given.id;
  return given.training < training_.number
         || (given.training == training_.number
             && id.replica < training_.replicas && id.part < parts_.size()
             && (parts_[id.part].is_decided(id.step)
                 || parts_[id.part].check(id.replica, id.step)
                      == push_result::accepted));
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
    std::vector<part_contributions> restored;
    auto clients = clients_;
    std::size_t at = 0;
    bool can_restore = has_states_of_training(received)
                       && clients.restore(received.clients, received.sequence);
    if (can_restore)
      restored = parts_of(received.current);
    for (std::size_t i = 0; can_restore && i < restored.size(); ++i) {
      const auto count = received.parts[i].waiting.size();
      can_restore = count <= gradients.size() - at
                    && restored[i].restore(received.parts[i],
                                           {gradients.data() + at, count});
      at += count;
    }
    if (!can_restore || at != gradients.size()
        || !is_last_decision(received.decided, received.current, restored))
      return {protocol_error{"a snapshot of a shard has other parts or an "
                             "impossible state"}};
    training_ = received.current;
    parts_ = std::move(restored);
    clients_ = std::move(clients);
    decided_ = received.decided;
    chief_ = received.chief;
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
