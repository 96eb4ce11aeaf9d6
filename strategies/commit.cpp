#include "troupe/strategies/commit.hpp"

#include "troupe/strategies/blame.hpp"

#include <algorithm>
#include <limits>

namespace troupe::commit {

namespace {

template <class T>
void add(reaction& out, T x) {
  out.emplace_back(std::in_place_type<T>, std::move(x));
}

} // namespace

ledger::ledger(std::uint32_t replicas, std::uint64_t lease)
  : members_(replicas),
    lease_{lease},
    reports_(lease, std::vector<step_report>(replicas)),
    reported_(lease, std::vector<bool>(replicas)),
    counts_(lease) {}

reaction ledger::open() {
  reaction out;
  reseat(out);
  return out;
}

reaction ledger::run(std::uint64_t first, std::uint64_t steps) {
  reaction out;
  ++moves_;
  const auto lost = std::ranges::find(members_, true, &member::lost);
  if (lost != members_.end()) {
    add(out, given_up{cause::lost,
                      "replica " + std::to_string(lost - members_.begin())
                        + " is lost; the crew can do no step without it"});
    return out;
  }
  if (!fresh_ && first != next_)
    reseat(out);
  first_ = next_ = granted_ = heard_ = first;
  end_ =
    first + std::min(steps, std::numeric_limits<std::uint64_t>::max() - first);
  wanted_ = true;
  now_ = phase::seating;
  settle(out);
  return out;
}

reaction ledger::stop() {
  reaction out;
  if (wanted_) // nothing was granted yet
    end_ = first_;
  else if (now_ == phase::running || now_ == phase::probing) {
    end_ = granted_;
    go_on(out); // there may be nothing left to wait for
  }
  return out;
}

reaction ledger::heard(std::uint64_t next) {
  reaction out;
  if ((now_ != phase::running && now_ != phase::probing) || next <= heard_
      || next > next_)
    return out;
  heard_ = next;
  if (next_ == granted_)
    ++moves_; // the replicas waited for this, and are owed time from here
  go_on(out);
  return out;
}

void ledger::reseat(reaction& out) {
  ++epoch_;
  ++moves_;
  fresh_ = true;
  for (auto& step : reported_)
    step.assign(members_.size(), false);
  std::ranges::fill(counts_, 0u);
  add(out,
      send_seats{{epoch_, 0, static_cast<std::uint32_t>(members_.size())}});
}

bool ledger::all_seated() const {
  return std::ranges::all_of(
    members_, [this](const member& m) { return m.lost || m.seated == epoch_; });
}

/// Goes on once everybody has taken the seat of this epoch.
void ledger::settle(reaction& out) {
  if (!all_seated())
    return;
  if (now_ == phase::leaving) {
    now_ = phase::idle;
    add(out, verdict_);
  } else if (now_ == phase::seating && wanted_) {
    wanted_ = false;
    begin(out);
  }
}

void ledger::begin(reaction& out) {
  granted_ = std::min(first_ + lease_, end_);
  if (granted_ == first_) {
    now_ = phase::idle;
    add(out, ended{first_});
    return;
  }
  fresh_ = false;
  now_ = phase::running;
  add(out, send_orders{{epoch_, first_, granted_}});
}

reaction ledger::on(const seated& x) {
  reaction out;
  if (x.epoch != epoch_ || x.replica >= members_.size()
      || members_[x.replica].seated == epoch_)
    return out;
  members_[x.replica].seated = epoch_;
  ++moves_;
  settle(out);
  return out;
}

bool ledger::reported(std::uint32_t replica, std::uint64_t step) const {
  return reported_[step % lease_][replica];
}

reaction ledger::on(const report& x) {
  reaction out;
  if (x.epoch != epoch_ || (now_ != phase::running && now_ != phase::probing)
      || x.step < next_)
    return out;
  if (x.replica >= members_.size() || x.step >= granted_) {
    fail(out, cause::protocol,
         "replica " + std::to_string(x.replica) + " reported step "
           + std::to_string(x.step) + ", which it was not granted");
    return out;
  }
  if (reported(x.replica, x.step))
    return out;
  const auto slot = x.step % lease_;
  reported_[slot][x.replica] = true;
  reports_[slot][x.replica] = x.what;
  ++counts_[slot];
  now_ = phase::running; // it moves after all
  ++moves_;
  while (next_ < granted_ && counts_[next_ % lease_] == members_.size())
    commit_next(out);
  return out;
}

void ledger::commit_next(reaction& out) {
  const auto slot = next_ % lease_;
  commit_record record{next_, epoch_, {}, total(reports_[slot])};
  for (std::uint32_t r = 0; r < members_.size(); ++r)
    record.contributors.push_back(r);
  reported_[slot].assign(members_.size(), false);
  counts_[slot] = 0;
  ++next_;
  add(out, committed{std::move(record)});
  go_on(out);
}

/// Grants what may be granted, or ends.
void ledger::go_on(reaction& out) {
  const auto bound = std::min(next_ + lease_, heard_ + 2 * lease_);
  if (const auto more = std::min(bound, end_); more > granted_) {
    granted_ = more;
    add(out, send_grants{{epoch_, granted_}});
  }
  if (next_ == end_) {
    now_ = phase::idle;
    add(out, ended{next_});
  }
}

void ledger::fail(reaction& out, cause code, std::string why) {
  verdict_ = {code, std::move(why)};
  wanted_ = false;
  now_ = phase::leaving;
  reseat(out);
  settle(out);
}

reaction ledger::on(const failed& x) {
  reaction out;
  if (x.epoch == epoch_ && x.replica < members_.size()
      && (now_ == phase::running || now_ == phase::probing))
    fail(out, x.code, x.why);
  return out;
}

reaction ledger::on_lost(std::uint32_t replica, const std::string& why) {
  reaction out;
  members_[replica].lost = true;
  ++moves_;
  if (now_ == phase::leaving)
    settle(out);
  else if (now_ != phase::idle)
    fail(out, cause::lost,
         "replica " + std::to_string(replica) + " was lost in step "
           + std::to_string(next_) + ": " + why);
  return out;
}

reaction ledger::on_reducer_lost(std::uint32_t reducer,
                                 const std::string& why) {
  reaction out;
  if (now_ != phase::idle && now_ != phase::leaving)
    fail(out, cause::lost,
         "reducer " + std::to_string(reducer) + " was lost in step "
           + std::to_string(next_) + ": " + why);
  return out;
}

reaction ledger::on_late(const std::string& waited) {
  reaction out;
  ++moves_;
  switch (now_) {
    case phase::idle:
      break;
    case phase::running:
      now_ = phase::probing;
      blames_.clear();
      for (auto& m : members_)
        m.answered = false;
      add(out, send_probes{{epoch_, next_}});
      break;
    case phase::seating:
      now_ = phase::idle; // nothing was granted, so there is nothing to leave
      wanted_ = false;
      add(out, given_up{cause::stalled,
                        "step " + std::to_string(first_) + " cannot begin: for "
                          + waited + " " + replicas_named(late_ones())
                          + " did not take the seat of epoch "
                          + std::to_string(epoch_)
                          + " and may still be in an older step"});
      break;
    case phase::probing:
      fail(out, cause::stalled, verdict(waited));
      break;
    case phase::leaving: // whoever is left does not even leave
      now_ = phase::idle;
      add(out, verdict_);
  }
  return out;
}

reaction ledger::on(const blame& x) {
  if (now_ == phase::probing && x.epoch == epoch_ && x.step == next_) {
    blames_.push_back(x);
    if (!x.reducer && x.id < members_.size())
      members_[x.id].answered = true;
  }
  return {};
}

std::vector<std::uint32_t> ledger::late_ones() const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t r = 0; r < members_.size(); ++r)
    if (!members_[r].lost && members_[r].seated != epoch_)
      out.push_back(r);
  return out;
}

std::string ledger::verdict(const std::string& waited) const {
  std::vector<std::uint32_t> behind, silent;
  for (std::uint32_t r = 0; r < members_.size(); ++r) {
    if (!reported(r, next_))
      behind.push_back(r);
    if (!members_[r].answered)
      silent.push_back(r);
  }
  return "step " + std::to_string(next_) + " stalled for " + waited + ": "
         + explain(blames_, behind, silent);
}

} // namespace troupe::commit
