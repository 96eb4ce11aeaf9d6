#include "troupe/strategies/step_commit/stall_report.hpp"
#include "troupe/strategies/step_commit/state_machine.hpp"

#include <algorithm>
#include <utility>

// Ends of a run other than completion: failures, losses and timeouts.

namespace troupe::commit {

void ledger::fail(reaction& out, cause code, std::string why) {
  verdict_ = {code, std::move(why)};
  wanted_ = false;
  now_ = phase::leaving;
  reseat(out);
  settle(out);
}

reaction ledger::on(const failed& x) {
  reaction out;
  if (x.epoch != epoch_ || x.replica >= members_.size() || !works()
      || !known(x.replica, x.incarnation))
    return out;
  if (loss_)
    tell_loss(out, x.why);
  else if (where_.several())
    fail(out, x.code,
         where_.name_of(x.replica) + " failed in step " + std::to_string(x.step)
           + ": " + x.why);
  else
    fail(out, x.code, x.why);
  return out;
}

reaction ledger::end_with(cause code, const std::string& why) {
  reaction out;
  if (now_ != phase::idle && now_ != phase::leaving)
    fail(out, code, why);
  return out;
}

reaction ledger::on_lost(std::uint32_t replica, const std::string& why) {
  reaction out;
  if (members_[replica].lost)
    return out;
  members_[replica].lost = true;
  ++moves_;
  if (now_ == phase::leaving)
    settle(out);
  else if (now_ != phase::idle && !loss_)
    fail(out, cause::lost,
         where_.name_of(replica) + " was lost in step " + std::to_string(next_)
           + ": " + why);
  return out;
}

reaction ledger::on_process_lost(std::uint32_t process, cause code,
                                 const std::string& why) {
  reaction out;
  for (auto r = where_.first[process]; r < where_.first[process + 1]; ++r)
    members_[r].lost = true;
  ++moves_;
  const auto who = where_.names[process];
  if (now_ == phase::leaving) {
    settle(out);
  } else if (now_ == phase::seating) {
    fail(out, code,
         who + " was lost before step " + std::to_string(next_) + ": " + why);
  } else if (works() && !loss_) {
    loss_ = {code, why};
    lost_one_ = who;
    probe_all(out, awaited_step());
  }
  return out;
}

/// First step that a live replica has not reported. Lost replicas are not
/// considered: their last reports may have been lost with them.
std::uint64_t ledger::awaited_step() const {
  for (auto step = next_; step < granted_; ++step)
    for (std::uint32_t r = 0; r < members_.size(); ++r)
      if (!members_[r].lost && !reported(r, step))
        return step;
  return next_;
}

/// Aborts the run, naming the lost process and the replicas that wait for it.
void ledger::tell_loss(reaction& out, const std::string& more) {
  const auto what = more.empty() ? waits() : more;
  fail(out, loss_->code,
       lost_one_ + " was lost in step " + std::to_string(awaited_step()) + ": "
         + loss_->why + (what.empty() ? "" : "; " + what));
}

void ledger::probe_all(reaction& out, std::uint64_t step) {
  now_ = phase::probing;
  probed_ = step;
  blames_.clear();
  for (auto& m : members_) {
    m.answered = m.lost;
    m.explained = false;
  }
  add(out, send_probes{{epoch_, step}});
}

reaction ledger::on_reducer_lost(std::uint32_t reducer,
                                 const std::string& why) {
  reaction out;
  lost_reducers_.push_back(reducer);
  if (now_ != phase::idle && now_ != phase::leaving)
    fail(out, cause::lost,
         "reducer " + std::to_string(reducer) + " was lost in step "
           + std::to_string(next_) + ": " + why);
  return out;
}

/// Sends the configure message again to the replicas that did not acknowledge
/// it.
/// @returns false if that was done already.
bool ledger::urge(reaction& out) {
  if (std::exchange(urged_, true))
    return false;
  add(out, send_seats{next_seat(), late_ones()});
  return true;
}

reaction ledger::on_late(const std::string& waited) {
  reaction out;
  ++moves_;
  switch (now_) {
    case phase::idle:
      break;
    case phase::running:
      probe_all(out, next_);
      break;
    case phase::seating:
      if (urge(out))
        break;
      now_ = phase::idle; // no step was granted, so no replica has to leave one
      wanted_ = urged_ = false;
      add(out, given_up{cause::stalled,
                        "step " + std::to_string(first_) + " cannot begin: for "
                          + waited + " " + replicas_named(late_ones())
                          + " did not acknowledge generation "
                          + std::to_string(epoch_)
                          + " and may still be in an older step"});
      break;
    case phase::probing:
      if (loss_)
        tell_loss(out);
      else
        fail(out, cause::stalled, verdict(waited));
      break;
    case phase::leaving: // a replica does not acknowledge the next generation
      if (urge(out))
        break;
      now_ = phase::idle;
      urged_ = false;
      add(out, verdict_);
  }
  return out;
}

reaction ledger::on(const blame& x) {
  reaction out;
  if (now_ != phase::probing || x.epoch != epoch_ || x.step != probed_)
    return out;
  if (!is_possible(x) || !first_answer(x))
    return out;
  blames_.push_back(x);
  if (!loss_ || !all_answered())
    return out;
  if (const auto step = awaited_step(); step > probed_)
    probe_all(out, step); // its reports arrived after the probe was sent
  else
    tell_loss(out);
  return out;
}

bool ledger::is_possible(const blame& x) const {
  return x.missing.size() <= members_.size()
         && (x.reducer || x.id < members_.size());
}

/// Notes the answer of a role to the last probe.
/// @returns false if that role has answered before.
bool ledger::first_answer(const blame& x) {
  if (x.reducer)
    return std::ranges::none_of(
      blames_, [&x](const blame& y) { return y.reducer && y.id == x.id; });
  members_[x.id].answered = true;
  return !std::exchange(members_[x.id].explained, true);
}

bool ledger::all_answered() const {
  return std::ranges::all_of(members_, &member::answered);
}

std::vector<std::uint32_t> ledger::late_ones() const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t r = 0; r < members_.size(); ++r)
    if (!members_[r].lost && members_[r].seated != epoch_)
      out.push_back(r);
  return out;
}

std::vector<std::uint32_t> ledger::behind() const {
  if (!works())
    return late_ones();
  std::vector<std::uint32_t> out;
  for (std::uint32_t r = 0; r < members_.size(); ++r)
    if (!members_[r].lost && !reported(r, next_))
      out.push_back(r);
  return out;
}

std::string ledger::verdict(const std::string& waited) const {
  return "step " + std::to_string(next_) + " stalled for " + waited + ": "
         + waits();
}

/// @returns a sentence that says which roles wait for what, as far as the last
///          probe found out.
std::string ledger::waits() const {
  std::vector<std::uint32_t> behind, silent;
  for (std::uint32_t r = 0; r < members_.size(); ++r) {
    if (!members_[r].lost && !reported(r, probed_))
      behind.push_back(r);
    if (!members_[r].answered)
      silent.push_back(r);
  }
  return explain(blames_, behind, silent);
}

} // namespace troupe::commit
