#include "troupe/strategies/step_commit/state_machine.hpp"

#include <algorithm>

namespace troupe::commit {

std::string places::name_of(std::uint32_t replica) const {
  const auto name = "replica " + std::to_string(replica);
  if (!several())
    return name;
  const auto next = std::ranges::upper_bound(first, replica);
  return name + " of " + names.at(std::size_t(next - first.begin()) - 1);
}

ledger::ledger(std::uint32_t replicas, std::uint64_t lease, places where)
  : members_(replicas),
    lease_{lease},
    at_once_{at_once(lease)},
    where_{std::move(where)},
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
    const auto who = where_.name_of(std::uint32_t(lost - members_.begin()));
    add(out,
        given_up{cause::lost,
                 who + " is lost; the group cannot run a step without it"});
    return out;
  }
  if (!lost_reducers_.empty()) {
    add(out, given_up{cause::lost,
                      "reducer " + std::to_string(lost_reducers_.front())
                        + " is lost; the group cannot reduce without it"});
    return out;
  }
  if (!fresh_ && first != next_)
    reseat(out);
  first_ = next_ = granted_ = heard_ = first;
  end_ = end_of(first, steps);
  wanted_ = true;
  now_ = phase::seating;
  settle(out);
  return out;
}

reaction ledger::stop() {
  reaction out;
  if (wanted_) // no step was granted yet
    end_ = first_;
  else if (works()) {
    end_ = granted_;
    go_on(out); // every granted step may be committed already
  }
  return out;
}

reaction ledger::heard(std::uint64_t next) {
  reaction out;
  if (!works() || next <= heard_ || next > next_)
    return out;
  heard_ = next;
  if (next_ == granted_)
    ++moves_; // replicas were idle: restart the step timeout
  go_on(out);
  return out;
}

seat ledger::next_seat() const {
  return {epoch_, 0, static_cast<std::uint32_t>(members_.size())};
}

void ledger::reseat(reaction& out) {
  ++epoch_;
  ++moves_;
  fresh_ = true;
  urged_ = false;
  loss_.reset();
  for (auto& step : reported_)
    step.assign(members_.size(), false);
  std::ranges::fill(counts_, 0u);
  send_seats all{next_seat(), {}};
  for (std::uint32_t r = 0; r < members_.size(); ++r)
    all.whom.push_back(r);
  add(out, std::move(all));
}

bool ledger::all_seated() const {
  return std::ranges::all_of(
    members_, [this](const member& m) { return m.lost || m.seated == epoch_; });
}

/// Continues when all replicas have acknowledged this generation.
void ledger::settle(reaction& out) {
  if (!all_seated())
    return;
  urged_ = false;
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
  members_[x.replica].incarnation = x.incarnation;
  ++moves_;
  settle(out);
  return out;
}

bool ledger::known(std::uint32_t replica, std::uint32_t incarnation) const {
  return replica >= members_.size()
         || members_[replica].incarnation == incarnation;
}

bool ledger::reported(std::uint32_t replica, std::uint64_t step) const {
  return reported_[step % lease_][replica];
}

reaction ledger::on(const report& x) {
  reaction out;
  if (x.epoch != epoch_ || !works() || x.step < next_
      || !known(x.replica, x.incarnation))
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
  if (!loss_)
    now_ = phase::running; // a report is progress
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

/// Grants the steps that may be granted, or completes the run.
void ledger::go_on(reaction& out) {
  const auto bound = std::min(next_ + lease_, heard_ + 2 * lease_);
  const auto more = std::min(bound, end_);
  if (more > granted_
      && (more - granted_ >= at_once_ || more == end_ || next_ == granted_)) {
    granted_ = more;
    add(out, send_grants{{epoch_, granted_}});
  }
  if (next_ == end_) {
    now_ = phase::idle;
    add(out, ended{next_});
  }
}

} // namespace troupe::commit
