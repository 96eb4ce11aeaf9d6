#include "troupe/actors/control/status_survey.hpp"

#include "troupe/actors/control/chief.hpp"
#include "troupe/strategies/step_commit/waits.hpp"

#include <algorithm>

// The part of the chief that reports the status of the job: the step rate, and
// why the next step is not committed.

namespace troupe {

namespace {

using namespace std::chrono_literals;

constexpr auto rate_window = 10s;
constexpr auto sample_interval = 250ms;
constexpr std::size_t max_status_requests = 64;

/// Maximum duration of a status survey.
constexpr std::chrono::milliseconds max_survey_duration{300};

std::uint64_t ms_between(step_rate::time_point a, step_rate::time_point b) {
  return static_cast<std::uint64_t>(
    std::chrono::duration_cast<std::chrono::milliseconds>(b - a).count());
}

} // namespace

void step_rate::begin(time_point now, std::uint64_t next) {
  samples_.assign(1, {now, next});
  last_ = samples_.front();
}

void step_rate::on_commit(time_point now, std::uint64_t next) {
  last_ = {now, next};
  if (samples_.empty() || now - samples_.back().time >= sample_interval)
    samples_.push_back(last_);
  while (samples_.size() > 1 && now - samples_[1].time > rate_window)
    samples_.pop_front();
}

void step_rate::write_to(time_point now, job_status& status) const {
  if (samples_.empty())
    return;
  const auto& first = samples_.front();
  status.window_ms = ms_between(first.time, now);
  status.since_commit_ms = ms_between(last_.time, now);
  if (status.window_ms > 0)
    status.steps_per_second =
      static_cast<double>(last_.next_step - first.next_step) * 1000
      / static_cast<double>(status.window_ms);
}

status_survey::~status_survey() {
  for (auto& x : requests)
    x.deliver(caf::make_error(ec::cancelled, describe(chief_terminated(), {})));
}

void status_survey::on_wait_report(const step_commit::wait_report& report) {
  if (report.generation != generation || report.step != step)
    return;
  if (!report.reducer)
    unanswered.erase(report.id);
  if (!requests.empty()
      && reporting_roles.emplace(report.reducer, report.id).second)
    wait_reports.push_back(report);
}

void status_survey::begin(std::uint64_t new_generation,
                          std::uint64_t new_step) {
  if (new_generation != generation || new_step != step)
    unanswered.clear();
  generation = new_generation;
  step = new_step;
  wait_reports.clear();
  reporting_roles.clear();
}

caf::result<job_status> chief_state::status() {
  if (run == 0) {
    auto idle_status = make_status();
    if (auto absent = barrier->missing(); !absent.empty())
      explain(idle_status,
              {.kind = failure_kind::run_not_joined,
               .code = ec::stalled,
               .processes = std::move(absent)},
              ms_between(join_deadline - join_timeout, self->clock().now()));
    return idle_status;
  }
  if (survey.requests.size() >= max_status_requests)
    return caf::make_error(ec::busy,
                           std::string{"too many status requests are pending"});
  auto promise = self->make_response_promise<job_status>();
  survey.requests.push_back(promise);
  if (survey.requests.size() > 1)
    return promise; // the running survey answers this request too
  survey.begin(commits->generation(), commits->next());
  const step_commit::probe question{survey.generation, survey.step};
  for (std::uint32_t r = 0; r < roles.replicas.size(); ++r)
    if (survey.unanswered.insert(r).second)
      sender.send(replica_id(r), roles.replicas[r], message_kind::probe,
                  question.generation, question.step, question);
  probe_reducers(question);
  self->delayed_send(self, std::min(probe_timeout(), max_survey_duration),
                     atom::status_v, ++survey.round);
  return promise;
}

void chief_state::on_survey_timeout(std::uint64_t number) {
  if (number != survey.round)
    return;
  auto status = make_status();
  if (run != 0 && commits->next() == survey.step
      && status.generation == survey.generation) {
    auto report = pending_step();
    use_user_steps(report, call, first_step);
    explain(status, report, status.since_commit_ms);
  }
  for (auto& request : std::exchange(survey.requests, {}))
    request.deliver(status);
}

void chief_state::explain(job_status& status, const failure_report& report,
                          std::uint64_t since_ms) const {
  status.stall_reason = describe(report, options.processes);
  status.missing = missing_roles(report, options.processes, since_ms);
}

void chief_state::record_suspicions(
  const step_commit::wait_report& report) const {
  const auto& names = options.processes.names;
  for (const auto& x : report.suspects)
    if (options.recorder && x.process < names.size())
      options.recorder->record(
        {.kind = flight_event_kind::suspicion,
         .generation = report.generation,
         .run = run,
         .step = shown(report.step),
         .process = options.recorder->task_of(names[x.process]),
         .replica = report.id,
         .text = x.reason});
}

job_status chief_state::make_status() const {
  job_status status;
  status.run = run;
  status.generation = commits->generation();
  if (run == 0 && next_user_step) {
    status.step = *next_user_step;
  } else {
    status.step = shown(commits->next());
    status.operation = operation_of(call);
  }
  if (run != 0)
    rate.write_to(self->clock().now(), status);
  return status;
}

failure_report chief_state::pending_step() const {
  const auto taken = *std::ranges::min_element(acknowledged);
  if (!commits->busy() && taken < commits->next()) { // all granted are done
    failure_report report{.kind = failure_kind::commits_not_taken,
                          .code = ec::stalled,
                          .run = run,
                          .step = taken};
    for (std::uint32_t p = 0; p < acknowledged.size(); ++p)
      if (acknowledged[p] == report.step)
        report.processes.push_back(p);
    return report;
  }
  failure_report report{.kind = failure_kind::step_pending,
                        .code = ec::stalled,
                        .replicas = commits->behind(),
                        .run = run,
                        .step = survey.step};
  std::vector<std::uint32_t> silent;
  for (const auto r : report.replicas)
    if (std::ranges::none_of(survey.wait_reports,
                             [r](const step_commit::wait_report& x) {
                               return !x.reducer && x.id == r;
                             }))
      silent.push_back(r);
  step_commit::add_waits(report, survey.wait_reports, report.replicas, silent);
  shorten(report);
  return report;
}

} // namespace troupe
