#include "troupe/strategies/step_commit/state_machine.hpp"
#include "troupe/strategies/step_commit/waits.hpp"

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

/// Returns true if a replica can report a failure of this kind.
bool is_of_a_replica(failure_kind kind) {
  return kind == failure_kind::step_failed
         || kind == failure_kind::wait_timed_out
         || kind == failure_kind::peer_violation
         || kind == failure_kind::step_function_unknown;
}

/// True if a wait has timed out and its report names no missing replica. The
/// replica that waits does not know it if another one adds the sum.
bool is_unexplained(const failure_report& report) {
  return report.kind == failure_kind::wait_timed_out && report.waits.size() == 1
         && report.waits.front().missing.empty();
}

} // namespace

void state_machine::fail(reaction& out, failure_report reason) {
  shorten(reason);
  failure_ = std::move(reason);
  run_pending_ = false;
  phase_ = phase::aborting;
  reconfigure(out);
  continue_if_configured(out);
}

/// Returns the report of a replica's failure, without what a peer that follows
/// the protocol cannot send.
failure_report state_machine::report_of(const failed& failure) const {
  auto report = failure.report;
  const auto code = ends_a_step(report.code) ? report.code : ec::invalid;
  if (!is_of_a_replica(report.kind)
      || !troupe::is_possible(report, placement_.processes(),
                              placement_.replicas()))
    report = {.kind = failure_kind::step_failed};
  report.code = code;
  report.replicas = {failure.replica};
  report.step = failure.step;
  return report;
}

reaction state_machine::on(const failed& failure) {
  reaction out;
  if (failure.generation != generation_ || failure.replica >= members_.size()
      || !is_active() || !is_current(failure.replica, failure.incarnation))
    return out;
  const auto report = report_of(failure);
  if (lost_process_)
    abort_for_loss(out, &report);
  else if (suspicion_ && report.code == ec::stalled)
    // the replica has waited for the suspected process
    abort_for_suspicion(out, &report);
  else if (is_unexplained(report))
    on_late_wait(out, report);
  else if (late_wait_)
    abort_for_late_wait(out, &report);
  else
    fail(out, report);
  return out;
}

reaction state_machine::end_with(failure_report reason) {
  reaction out;
  if (phase_ != phase::idle && phase_ != phase::aborting)
    fail(out, std::move(reason));
  return out;
}

reaction state_machine::on_lost(std::uint32_t replica,
                                const std::string& cause) {
  reaction out;
  if (members_[replica].lost)
    return out;
  members_[replica].lost = members_[replica].answered = true;
  ++progress_count_;
  if (phase_ == phase::aborting)
    continue_if_configured(out);
  else if (phase_ != phase::idle && !lost_process_)
    fail(out, {.kind = failure_kind::replica_lost,
               .code = ec::peer_lost,
               .replicas = {replica},
               .step = next_,
               .cause = cause});
  return out;
}

failure_report state_machine::loss_of(std::uint32_t process, ec code,
                                      const std::string& cause) const {
  return {.kind = failure_kind::process_lost,
          .code = code,
          .processes = {process},
          .replicas = placement_.replicas_of(process),
          .step = next_,
          .cause = cause};
}

reaction state_machine::on_process_lost(std::uint32_t process, ec code,
                                        const std::string& cause) {
  reaction out;
  for (const auto r : placement_.replicas_of(process))
    members_[r].lost = members_[r].answered = true;
  ++progress_count_;
  auto loss = loss_of(process, code, cause);
  if (phase_ == phase::aborting) {
    continue_if_configured(out);
  } else if (phase_ == phase::configuring) {
    loss.kind = failure_kind::process_lost_before_step;
    fail(out, std::move(loss));
  } else if (is_active() && !lost_process_) {
    lost_process_ = std::move(loss);
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

/// Aborts the run because a process was lost.
/// @param later failure of a replica after that loss. Null: none.
void state_machine::abort_for_loss(reaction& out, const failure_report* later) {
  auto report = *lost_process_;
  report.step = awaited_step();
  add_probe_results(report, !later);
  if (later)
    add_failure(report, *later);
  fail(out, std::move(report));
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
                                        const std::string& cause) {
  reaction out;
  lost_reducers_.push_back(reducer);
  if (phase_ != phase::idle && phase_ != phase::aborting)
    fail(out, {.kind = failure_kind::reducer_lost,
               .code = ec::peer_lost,
               .replicas = {reducer},
               .step = next_,
               .cause = cause});
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

reaction state_machine::on_timeout(std::uint64_t timeout_ms) {
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
      add(out, aborted{{.kind = failure_kind::not_configured,
                        .code = ec::stalled,
                        .replicas = unconfigured(),
                        .step = first_,
                        .generation = generation_,
                        .timeout_ms = timeout_ms}});
      break;
    case phase::probing:
      if (lost_process_)
        abort_for_loss(out);
      else if (late_wait_)
        abort_for_late_wait(out);
      else if (suspicion_ && awaited_step() > probed_step_)
        probe_all(out, awaited_step()); // the answers are about another step
      else if (suspicion_)
        abort_for_suspicion(out);
      else
        abort_for_stall(out, timeout_ms);
      break;
    case phase::aborting: // a replica does not acknowledge the next generation
      if (resend_configure(out))
        break;
      phase_ = phase::idle;
      resent_ = false;
      add(out, aborted{failure_});
  }
  return out;
}

/// Begins to probe at the first suspicion of a run. The loss of the suspected
/// process is usually reported soon.
void state_machine::on_suspicion(reaction& out, const wait_report& report) {
  if (report.suspects.empty() || suspicion_ || lost_process_ || late_wait_
      || !is_active() || report.generation != generation_ || report.step < next_
      || !is_possible(report))
    return;
  suspicion_ = report;
  ++progress_count_;
  probe_all(out, awaited_step());
}

/// Aborts the run because a replica has no path to a process whose loss was not
/// reported.
/// @param later failure of a replica after its path has ended. Null: none.
void state_machine::abort_for_suspicion(reaction& out,
                                        const failure_report* later) {
  const auto& suspect = suspicion_->suspects.front();
  failure_report report{.kind = failure_kind::lanes_lost,
                        .code = suspect.code,
                        .processes = {suspect.process},
                        .replicas = {suspicion_->id},
                        .step = awaited_step(),
                        .cause = suspect.reason};
  if (later)
    add_failure(report, *later);
  else
    add_probe_results(report, true);
  fail(out, std::move(report));
}

/// A wait has timed out whose report names no missing replica: asks the others,
/// unless they are asked already.
void state_machine::on_late_wait(reaction& out, const failure_report& report) {
  if (late_wait_)
    return;
  late_wait_ = report;
  probe_all(out, report.step);
}

/// Aborts the run because a wait has timed out. Names the replicas that others
/// miss for it, or else those that are still in the step function.
/// @param later failure of another replica. Null: none.
void state_machine::abort_for_late_wait(reaction& out,
                                        const failure_report* later) {
  auto report = *late_wait_;
  auto& wait = report.waits.front();
  failure_report found; // by the probe and the later failure
  add_probe_results(found, !later);
  if (later)
    add_failure(found, *later);
  for (const auto& x : found.waits)
    if (x.current_activity == wait.current_activity && x.bucket == wait.bucket)
      wait.missing.insert(wait.missing.end(), x.missing.begin(),
                          x.missing.end());
  add_missing({&wait, 1}, wait_reports_);
  if (wait.missing.empty()) {
    wait.missing = found.unresponsive;
    for (const auto& x : found.waits)
      if (!x.reducer && x.current_activity == activity::computing)
        wait.missing.push_back(x.id);
  }
  std::ranges::sort(wait.missing);
  wait.missing.erase(std::unique(wait.missing.begin(), wait.missing.end()),
                     wait.missing.end());
  std::erase(wait.missing, wait.id);
  report.later_cause = found.later_cause;
  fail(out, std::move(report));
}

void state_machine::abort_for_stall(reaction& out, std::uint64_t timeout_ms) {
  failure_report report{.kind = failure_kind::stalled,
                        .code = ec::stalled,
                        .step = next_,
                        .timeout_ms = timeout_ms};
  add_probe_results(report, true);
  fail(out, std::move(report));
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

/// Aborts the run for a loss, a suspicion or a wait that has timed out, if all
/// live replicas have answered the probe. In the case of a suspicion, the
/// suspected process lives then.
void state_machine::conclude_probe(reaction& out) {
  if (!(lost_process_ || suspicion_ || late_wait_) || !all_answered())
    return;
  if (late_wait_ && !lost_process_)
    return abort_for_late_wait(out);
  if (const auto step = awaited_step(); step > probed_step_)
    // After the probe was sent, all live replicas have reported the probed
    // step. So a later step is the first incomplete one, and is probed instead.
    probe_all(out, step);
  else if (lost_process_)
    abort_for_loss(out);
  else
    abort_for_suspicion(out);
}

bool state_machine::is_possible(const wait_report& report) const {
  if (report.missing.size() > members_.size())
    return false;
  if (report.reducer)
    return report.suspects.empty();
  if (report.id >= members_.size()
      || report.suspects.size() > placement_.processes())
    return false;
  return std::ranges::all_of(report.suspects, [&](const suspicion& x) {
    return x.process < placement_.processes()
           && x.process != placement_.process_of(report.id)
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

/// Adds what the answers to the last probe say about its step.
/// @param complete true if replicas that have not answered will not answer.
void state_machine::add_probe_results(failure_report& report,
                                      bool complete) const {
  std::vector<std::uint32_t> behind, silent;
  for (std::uint32_t r = 0; r < members_.size(); ++r) {
    if (!members_[r].lost && !reported(r, probed_step_))
      behind.push_back(r);
    if (complete && !members_[r].answered)
      silent.push_back(r);
  }
  add_waits(report, wait_reports_, behind, silent);
}

} // namespace troupe::step_commit
