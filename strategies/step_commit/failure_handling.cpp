#include "troupe/strategies/step_commit/stall_report.hpp"
#include "troupe/strategies/step_commit/state_machine.hpp"

#include <algorithm>
#include <utility>

// Ends of a run other than completion: failures, losses and timeouts.

namespace troupe::step_commit {

namespace {

/// Returns true if a replica can fail in a step with this code.
bool ends_a_step(ec code) {
  return code == ec::invalid || code == ec::protocol || code == ec::stalled
         || code == ec::peer_lost || code == ec::unreachable;
}

} // namespace

void state_machine::fail(reaction& out, ec code, std::string reason) {
  failure_ = {code, std::move(reason)};
  run_pending_ = false;
  phase_ = phase::aborting;
  reconfigure(out);
  continue_if_configured(out);
}

reaction state_machine::on(const failed& failure) {
  reaction out;
  if (failure.generation != generation_ || failure.replica >= members_.size()
      || !is_active() || !is_current(failure.replica, failure.incarnation))
    return out;
  const auto code = ends_a_step(failure.code) ? failure.code : ec::invalid;
  if (lost_process_)
    abort_for_loss(out, failure.reason);
  else if (suspicion_ && code == ec::stalled)
    // the replica has waited for the suspected process
    abort_for_suspicion(out, failure.reason);
  else if (processes_.is_distributed())
    fail(out, code,
         processes_.name_of(failure.replica) + " failed in step "
           + std::to_string(failure.step) + ": " + failure.reason);
  else
    fail(out, code, failure.reason);
  return out;
}

reaction state_machine::end_with(ec code, const std::string& reason) {
  reaction out;
  if (phase_ != phase::idle && phase_ != phase::aborting)
    fail(out, code, reason);
  return out;
}

reaction state_machine::on_lost(std::uint32_t replica,
                                const std::string& reason) {
  reaction out;
  if (members_[replica].lost)
    return out;
  members_[replica].lost = members_[replica].answered = true;
  ++progress_count_;
  if (phase_ == phase::aborting)
    continue_if_configured(out);
  else if (phase_ != phase::idle && !lost_process_)
    fail(out, ec::peer_lost,
         processes_.name_of(replica) + " was lost in step "
           + std::to_string(next_) + ": " + reason);
  return out;
}

reaction state_machine::on_process_lost(std::uint32_t process, ec code,
                                        const std::string& reason) {
  reaction out;
  for (const auto r : processes_.placement.replicas_of(process))
    members_[r].lost = members_[r].answered = true;
  ++progress_count_;
  const auto name = processes_.names[process];
  if (phase_ == phase::aborting) {
    continue_if_configured(out);
  } else if (phase_ == phase::configuring) {
    fail(out, code,
         name + " was lost before step " + std::to_string(next_) + ": "
           + reason);
  } else if (is_active() && !lost_process_) {
    lost_process_ = {code, reason};
    lost_name_ = name;
    probe_all(out, awaited_step());
  } else if (phase_ == phase::probing) {
    conclude_probe(out); // no answer of this process is awaited any more
  }
  return out;
}

/// Returns the first granted step that a live replica has not reported. Lost
/// replicas do not count, because their last reports may be lost too.
std::uint64_t state_machine::awaited_step() const {
  for (auto step = next_; step < granted_; ++step)
    for (std::uint32_t r = 0; r < members_.size(); ++r)
      if (!members_[r].lost && !reported(r, step))
        return step;
  return next_;
}

/// Aborts the run because a process was lost. The reason names that process and
/// ends with `more`. If `more` is empty, the reason ends with the waiting roles
/// and the inputs they wait for.
void state_machine::abort_for_loss(reaction& out, const std::string& more) {
  const auto waits = more.empty() ? describe_waits() : more;
  fail(out, lost_process_->code,
       lost_name_ + " was lost in step " + std::to_string(awaited_step()) + ": "
         + lost_process_->reason + (waits.empty() ? "" : "; " + waits));
}

void state_machine::probe_all(reaction& out, std::uint64_t step) {
  phase_ = phase::probing;
  probed_step_ = step;
  wait_reports_.clear();
  for (auto& m : members_) {
    m.answered = m.lost;
    m.explained = false;
  }
  add(out, send_probe{{generation_, step}});
}

reaction state_machine::on_reducer_lost(std::uint32_t reducer,
                                        const std::string& reason) {
  reaction out;
  lost_reducers_.push_back(reducer);
  if (phase_ != phase::idle && phase_ != phase::aborting)
    fail(out, ec::peer_lost,
         "reducer " + std::to_string(reducer) + " was lost in step "
           + std::to_string(next_) + ": " + reason);
  return out;
}

/// Sends `configure` a second time to the replicas that did not acknowledge it.
/// @returns false if `configure` was already sent a second time.
bool state_machine::resend_configure(reaction& out) {
  if (std::exchange(resent_, true))
    return false;
  add(out, send_configure{next_configure(), unconfigured()});
  return true;
}

reaction state_machine::on_timeout(const std::string& waited) {
  reaction out;
  ++progress_count_;
  switch (phase_) {
    case phase::idle:
      break;
    case phase::running:
      probe_all(out, next_);
      break;
    case phase::configuring:
      if (resend_configure(out))
        break;
      phase_ =
        phase::idle; // no step was granted, so no replica has a step to leave
      run_pending_ = resent_ = false;
      add(out, aborted{ec::stalled, "step " + std::to_string(first_)
                                      + " cannot begin: for " + waited + " "
                                      + replica_list(unconfigured())
                                      + " did not acknowledge generation "
                                      + std::to_string(generation_)
                                      + " and may still be in an older step"});
      break;
    case phase::probing:
      if (lost_process_)
        abort_for_loss(out);
      else if (suspicion_ && awaited_step() > probed_step_)
        probe_all(out, awaited_step()); // the answers are about another step
      else if (suspicion_)
        abort_for_suspicion(out, describe_waits());
      else
        fail(out, ec::stalled, stall_message(waited));
      break;
    case phase::aborting: // a replica does not acknowledge the next generation
      if (resend_configure(out))
        break;
      phase_ = phase::idle;
      resent_ = false;
      add(out, failure_);
  }
  return out;
}

/// Begins to probe at the first suspicion of a run. The loss of the suspected
/// process is usually reported soon.
void state_machine::on_suspicion(reaction& out, const wait_report& report) {
  if (report.suspects.empty() || suspicion_ || lost_process_ || !is_active()
      || report.generation != generation_ || report.step < next_
      || !is_possible(report))
    return;
  suspicion_ = report;
  ++progress_count_;
  probe_all(out, awaited_step());
}

/// Aborts the run because a replica has no path to a process whose loss was not
/// reported.
/// @param waits what the replicas wait for.
void state_machine::abort_for_suspicion(reaction& out,
                                        const std::string& waits) {
  const auto& [process, code, reason] = suspicion_->suspects.front();
  fail(out, code,
       processes_.name_of(suspicion_->id) + " has lost its lanes to "
         + processes_.names[process] + " in step "
         + std::to_string(awaited_step()) + ": " + reason
         + (waits.empty() ? "" : "; " + waits));
}

reaction state_machine::on(const wait_report& report) {
  reaction out;
  on_suspicion(out, report);
  if (phase_ != phase::probing || report.generation != generation_
      || report.step != probed_step_)
    return out;
  if (!is_possible(report) || !first_answer(report))
    return out;
  wait_reports_.push_back(report);
  conclude_probe(out);
  return out;
}

/// Aborts the run for a loss if all live replicas have answered the probe.
void state_machine::conclude_probe(reaction& out) {
  if (!lost_process_ || !all_answered())
    return;
  if (const auto step = awaited_step(); step > probed_step_)
    // After the probe was sent, all live replicas have reported the probed
    // step. So a later step is the first incomplete one, and is probed instead.
    probe_all(out, step);
  else
    abort_for_loss(out);
}

bool state_machine::is_possible(const wait_report& report) const {
  if (report.missing.size() > members_.size())
    return false;
  if (report.reducer)
    return report.suspects.empty();
  if (report.id >= members_.size()
      || report.suspects.size() > processes_.names.size())
    return false;
  return std::ranges::all_of(report.suspects, [&](const suspicion& x) {
    return x.process < processes_.names.size()
           && x.process != processes_.placement.process_of(report.id)
           && (x.code == ec::peer_lost || x.code == ec::unreachable);
  });
}

/// Notes the answer of a role to the last probe.
/// @returns false if that role has answered before.
bool state_machine::first_answer(const wait_report& report) {
  if (report.reducer)
    return std::ranges::none_of(wait_reports_, [&report](const wait_report& y) {
      return y.reducer && y.id == report.id;
    });
  members_[report.id].answered = true;
  return !std::exchange(members_[report.id].explained, true);
}

bool state_machine::all_answered() const {
  return std::ranges::all_of(members_, &member::answered);
}

std::vector<std::uint32_t> state_machine::unconfigured() const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t r = 0; r < members_.size(); ++r)
    if (!members_[r].lost && members_[r].configured_generation != generation_)
      out.push_back(r);
  return out;
}

std::vector<std::uint32_t> state_machine::behind() const {
  if (!is_active())
    return unconfigured();
  std::vector<std::uint32_t> out;
  for (std::uint32_t r = 0; r < members_.size(); ++r)
    if (!members_[r].lost && !reported(r, next_))
      out.push_back(r);
  return out;
}

std::string state_machine::stall_message(const std::string& waited) const {
  return "step " + std::to_string(next_) + " stalled for " + waited + ": "
         + describe_waits();
}

/// Returns a sentence that names the waiting roles and the inputs they wait
/// for, according to the answers to the last probe.
std::string state_machine::describe_waits() const {
  std::vector<std::uint32_t> behind, silent;
  for (std::uint32_t r = 0; r < members_.size(); ++r) {
    if (!members_[r].lost && !reported(r, probed_step_))
      behind.push_back(r);
    if (!members_[r].answered)
      silent.push_back(r);
  }
  return describe_stall(wait_reports_, behind, silent);
}

} // namespace troupe::step_commit
