#include "troupe/strategies/step_commit/state_machine.hpp"

#include <algorithm>

namespace troupe::step_commit {

state_machine::state_machine(std::uint64_t step_window, placement replicas)
  : members_(replicas.replicas()),
    step_window_{step_window},
    grant_batch_{grant_batch(step_window)},
    placement_{std::move(replicas)},
    reports_(step_window, std::vector<step_metrics>(members_.size())),
    sum_counts_(step_window),
    reported_(step_window, std::vector<bool>(members_.size())),
    report_counts_(step_window) {}

reaction state_machine::open() {
  reaction out;
  reconfigure(out);
  return out;
}

reaction state_machine::run(std::uint64_t first, std::uint64_t steps) {
  reaction out;
  ++progress_count_;
  const auto lost = std::ranges::find(members_, true, &member::lost);
  if (lost != members_.end()) {
    add(out, aborted{{.kind = failure_kind::replica_missing,
                      .code = ec::peer_lost,
                      .replicas = {std::uint32_t(lost - members_.begin())}}});
    return out;
  }
  if (!lost_reducers_.empty()) {
    add(out, aborted{{.kind = failure_kind::reducer_missing,
                      .code = ec::peer_lost,
                      .replicas = {lost_reducers_.front()}}});
    return out;
  }
  if (!unused_generation_ && first != next_)
    reconfigure(out);
  first_ = next_ = granted_ = acknowledged_ = first;
  end_ = end_step(first, steps);
  run_pending_ = true;
  suspicion_.reset();
  phase_ = phase::configuring;
  continue_if_configured(out);
  return out;
}

reaction state_machine::stop() {
  reaction out;
  if (run_pending_) // no step was granted yet
    end_ = first_;
  else if (is_active()) {
    end_ = granted_;
    grant_more(out); // every granted step may be committed already
  }
  return out;
}

reaction state_machine::acknowledge(std::uint64_t next) {
  reaction out;
  if (!is_active() || next <= acknowledged_ || next > next_)
    return out;
  acknowledged_ = next;
  if (next_ == granted_)
    ++progress_count_; // replicas were idle: restart the step timeout
  grant_more(out);
  return out;
}

configure state_machine::next_configure() const {
  return {generation_, 0, static_cast<std::uint32_t>(members_.size())};
}

void state_machine::reconfigure(reaction& out) {
  ++generation_;
  ++progress_count_;
  unused_generation_ = true;
  resent_ = false;
  lost_process_.reset();
  suspicion_.reset();
  late_wait_.reset();
  for (auto& step : reported_)
    step.assign(members_.size(), false);
  std::ranges::fill(report_counts_, 0u);
  send_configure all{next_configure(), {}};
  for (std::uint32_t r = 0; r < members_.size(); ++r)
    all.replicas.push_back(r);
  add(out, std::move(all));
}

bool state_machine::all_configured() const {
  return std::ranges::all_of(members_, [this](const member& m) {
    return m.lost || m.configured_generation == generation_;
  });
}

/// Reports an abort or starts the pending run, if all replicas have
/// acknowledged this generation.
void state_machine::continue_if_configured(reaction& out) {
  if (!all_configured())
    return;
  resent_ = false;
  if (phase_ == phase::aborting) {
    phase_ = phase::idle;
    add(out, aborted{failure_});
  } else if (phase_ == phase::configuring && run_pending_) {
    run_pending_ = false;
    start(out);
  }
}

void state_machine::start(reaction& out) {
  granted_ = std::min(first_ + step_window_, end_);
  if (granted_ == first_) {
    phase_ = phase::idle;
    add(out, completed{first_});
    return;
  }
  unused_generation_ = false;
  phase_ = phase::running;
  add(out, send_start{{generation_, first_, granted_}});
}

reaction state_machine::on(const configured& reply) {
  reaction out;
  if (reply.generation != generation_ || reply.replica >= members_.size()
      || members_[reply.replica].configured_generation == generation_)
    return out;
  members_[reply.replica].configured_generation = generation_;
  members_[reply.replica].incarnation = reply.incarnation;
  ++progress_count_;
  continue_if_configured(out);
  return out;
}

bool state_machine::is_current(std::uint32_t replica,
                               std::uint32_t incarnation) const {
  return replica >= members_.size()
         || members_[replica].incarnation == incarnation;
}

bool state_machine::reported(std::uint32_t replica, std::uint64_t step) const {
  return reported_[step % step_window_][replica];
}

reaction state_machine::on(const step_done& done) {
  reaction out;
  if (done.generation != generation_ || !is_active() || done.step < next_
      || !is_current(done.replica, done.incarnation))
    return out;
  if (done.replica >= members_.size() || done.step >= granted_) {
    fail(out, {.kind = failure_kind::step_not_granted,
               .code = ec::protocol,
               .replicas = {done.replica},
               .step = done.step});
    return out;
  }
  if (reported(done.replica, done.step))
    return out;
  const auto slot = done.step % step_window_;
  const auto count = done.metrics.sums.size();
  if (report_counts_[slot] == 0)
    sum_counts_[slot] = count;
  if (count > max_step_sums || count != sum_counts_[slot]) {
    fail(out, {.kind = failure_kind::metrics_differ,
               .code = ec::protocol,
               .replicas = {done.replica},
               .step = done.step});
    return out;
  }
  reported_[slot][done.replica] = true;
  reports_[slot][done.replica] = done.metrics;
  ++report_counts_[slot];
  ++progress_count_;
  while (next_ < granted_
         && report_counts_[next_ % step_window_] == members_.size())
    commit_next(out);
  if (suspicion_ && suspicion_->step < next_)
    suspicion_.reset(); // the step did not need the suspected process
  if (phase_ == phase::probing && !lost_process_ && !suspicion_ && !late_wait_)
    phase_ = phase::running; // a report is progress
  return out;
}

void state_machine::commit_next(reaction& out) {
  const auto slot = next_ % step_window_;
  commit_record record{next_, generation_, {}, {}};
  sum_metrics(reports_[slot], record.total);
  for (std::uint32_t r = 0; r < members_.size(); ++r)
    record.contributors.push_back(r);
  reported_[slot].assign(members_.size(), false);
  report_counts_[slot] = 0;
  ++next_;
  add(out, committed{std::move(record)});
  grant_more(out);
}

/// Grants the steps that the step window and the acknowledged commits allow.
/// Completes the run if its last step is committed.
void state_machine::grant_more(reaction& out) {
  const auto bound =
    std::min(next_ + step_window_, acknowledged_ + 2 * step_window_);
  const auto more = std::min(bound, end_);
  if (more > granted_
      && (more - granted_ >= grant_batch_ || more == end_
          || next_ == granted_)) {
    granted_ = more;
    add(out, send_grant{{generation_, granted_}});
  }
  if (next_ == end_) {
    phase_ = phase::idle;
    add(out, completed{next_});
  }
}

} // namespace troupe::step_commit
