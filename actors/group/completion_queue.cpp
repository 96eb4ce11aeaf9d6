#include "troupe/actors/group/completion_queue.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

std::uint64_t completion_queue::begin_run(const requesting_call& call,
                                          std::uint64_t first) {
  const std::lock_guard hold{lock_};
  // Its chief may have ended since.
  const bool is_rejected =
    early_rejection_ && early_rejection_->first == run_ + 1;
  if (termination_ && !is_rejected)
    throw job_error{*termination_};
  if (run_active_ || task_active_)
    throw std::logic_error("run was called while another run or for_each is "
                           "active");
  run_active_ = true;
  commits_.clear();
  next_.reset();
  failure_.reset();
  call_ = call;
  first_step_ = first;
  record_event(recorder_, {.kind = flight_event_kind::run_begun,
                           .run = run_ + 1,
                           .text = operation_of(call)});
  ++run_;
  if (is_rejected)
    fail_run(std::move(early_rejection_->second));
  return run_;
}

void completion_queue::note(flight_event event) {
  if (!recorder_)
    return;
  {
    const std::lock_guard hold{lock_};
    if (event.run == run_)
      event.step =
        user_step_of(call_, first_step_, event.step).value_or(event.step);
  }
  recorder_->record(event);
}

/// Records why a run has failed, and who was missing.
void completion_queue::record_failure(std::uint64_t run,
                                      const failure_report& report,
                                      const std::string& text) const {
  if (!recorder_)
    return;
  for (const auto& x : missing_roles(report, processes_, 0))
    recorder_->record({.kind = flight_event_kind::role_missing,
                       .run = run,
                       .step = report.step,
                       .process = recorder_->task_of(x.process),
                       .replica = x.replica,
                       .text = x.operation});
  recorder_->record({.kind = flight_event_kind::run_failed,
                     .run = run,
                     .step = report.step,
                     .text = text});
}

std::optional<std::uint64_t> completion_queue::wait_for_run(
  const std::function<void(const commit_record&, bool)>& on_commit,
  std::chrono::milliseconds timeout) {
  std::unique_lock hold{lock_};
  const auto has_event = [this] {
    return !commits_.empty() || next_ || failure_;
  };
  while (wait_strategy_->wait(hold, has_event, timeout)) {
    while (!commits_.empty()) {
      const auto record = std::move(commits_.front());
      commits_.pop_front();
      const bool more = !commits_.empty();
      hold.unlock();
      on_commit(record, more);
      hold.lock();
    }
    if (!next_ && !failure_)
      continue;
    run_active_ = false;
    if (failure_)
      throw job_error{*std::exchange(failure_, std::nullopt)};
    return next_;
  }
  run_active_ = false;
  return std::nullopt;
}

std::uint64_t
completion_queue::begin_tasks(std::span<const std::uint32_t> replicas) {
  const std::lock_guard hold{lock_};
  if (run_active_ || task_active_)
    throw std::logic_error("for_each was called while a run or another "
                           "for_each is active");
  task_active_ = true;
  task_failure_.reset();
  pending_replicas_ = {replicas.begin(), replicas.end()};
  return ++task_;
}

void completion_queue::wait_for_tasks(std::chrono::milliseconds timeout) {
  std::unique_lock hold{lock_};
  const bool completed = wait_strategy_->wait(
    hold, [this] { return pending_replicas_.empty(); }, timeout);
  task_active_ = false;
  if (!completed)
    throw to_job_error(
      {.kind = failure_kind::task_not_run,
       .code = ec::stalled,
       .replicas = {*pending_replicas_.begin()},
       .timeout_ms = static_cast<std::uint64_t>(timeout.count())},
      processes_);
  if (task_failure_)
    throw to_job_error(*std::exchange(task_failure_, std::nullopt), processes_);
}

std::optional<std::uint64_t> completion_queue::active_run() {
  const std::lock_guard hold{lock_};
  return run_active_ ? std::optional{run_} : std::nullopt;
}

bool completion_queue::group_terminated() {
  const std::lock_guard hold{lock_};
  return termination_.has_value();
}

bool completion_queue::wait_until(const std::function<bool()>& done,
                                  std::chrono::milliseconds timeout) {
  std::unique_lock hold{lock_};
  return wait_strategy_->wait(hold, done, timeout);
}

bool completion_queue::wait_for_terminations(
  std::size_t roles, std::chrono::milliseconds timeout) {
  return wait_until([&] { return terminated_roles_ >= roles; }, timeout);
}

template <class F>
void completion_queue::update(F&& change) {
  {
    const std::lock_guard hold{lock_};
    change();
  }
  wait_strategy_->notify();
}

void completion_queue::on_committed(std::uint64_t run, commit_record&& record) {
  note({.kind = flight_event_kind::step_committed,
        .generation = record.generation,
        .run = run,
        .step = record.step});
  update([&] {
    if (run == run_)
      commits_.push_back(std::move(record));
  });
}

void completion_queue::on_completed(std::uint64_t run, std::uint64_t next) {
  note({.kind = flight_event_kind::run_ended, .run = run, .step = next});
  update([&] {
    if (run == run_)
      next_ = next;
  });
}

void completion_queue::on_aborted(std::uint64_t run, failure_report&& report) {
  update([&] {
    if (run == run_ + 1)
      early_rejection_.emplace(run, std::move(report));
    else if (run == run_ && !failure_)
      fail_run(std::move(report));
  });
}

void completion_queue::fail_run(failure_report&& report) {
  use_user_steps(report, call_, first_step_);
  failure_.emplace(to_job_error(std::move(report), processes_));
  record_failure(run_, failure_->report(), failure_->what());
}

void completion_queue::on_group_terminated(const failure_report& why) {
  update([&] {
    auto report = why;
    if (run_active_)
      use_user_steps(report, call_, first_step_);
    if (!termination_)
      termination_.emplace(to_job_error(report, processes_));
    // The end of the group ends the active run, even if the request for the
    // run has not reached the chief.
    if (run_active_ && !next_ && !failure_) {
      failure_ = termination_;
      record_failure(run_, report, failure_->what());
    }
  });
}

void completion_queue::on_task_done(std::uint64_t task, std::uint32_t replica,
                                    std::string&& error) {
  update([&] {
    if (task != task_)
      return; // that task has timed out
    pending_replicas_.erase(replica);
    if (!error.empty() && !task_failure_)
      task_failure_ = {.kind = failure_kind::task_failed,
                       .code = ec::invalid,
                       .replicas = {replica},
                       .cause = std::move(error)};
  });
}

void completion_queue::on_role_terminated(bool chief) {
  if (chief)
    on_group_terminated(chief_terminated());
  update([&] { ++terminated_roles_; });
}

void completion_queue::notify() {
  update([] {});
}

} // namespace troupe
