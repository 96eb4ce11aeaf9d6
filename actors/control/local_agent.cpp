#include "troupe/actors/control/local_agent.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/strategies/step_commit/waits.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>

#include <algorithm>
#include <limits>

namespace troupe {

namespace {

/// Generation that ends the work of a replica. A replica that is configured
/// with it leaves its step and runs no more steps.
constexpr auto last_generation = std::numeric_limits<std::uint64_t>::max();

const role_id chief_id{role_id::kind::chief, 0};

} // namespace

local_agent_state::~local_agent_state() {
  if (options.listener) // ends the wait of a caller of `run`
    options.listener->on_group_terminated(chief_terminated());
}

/// Sends the replicas' unsent messages to the chief, and then `message`.
template <class Message>
void local_agent_state::forward(message_kind kind, const Message& message) {
  flush();
  if (!chief_lost)
    sender.send(chief_id, roles.chief, kind, generation,
                first_unreported_step(), message);
}

void local_agent_state::flush() {
  const auto pending = std::exchange(unsent, {});
  if (chief_lost)
    return;
  if (std::ranges::any_of(pending.steps_done,
                          [&](const auto& x) { return is_complete(x.step); }))
    report_sending.sent(self->clock().now());
  for (const auto& batch : split(pending)) {
    const auto kind = !batch.steps_done.empty()   ? message_kind::step_done
                      : !batch.configured.empty() ? message_kind::configured
                                                  : message_kind::wait_report;
    sender.send(chief_id, roles.chief, kind, generation,
                batch.steps_done.empty() ? first_unreported_step()
                                         : batch.steps_done.front().step,
                batch);
  }
}

std::uint64_t local_agent_state::first_unreported_step() const {
  const auto it = std::ranges::min_element(next_steps);
  return it == next_steps.end() ? 0 : *it;
}

void local_agent_state::on_configured(const step_commit::configured& answer) {
  if (answer.generation > generation)
    record_event(options.recorder, {.kind = flight_event_kind::generation_begun,
                                    .generation = answer.generation,
                                    .run = run});
  generation = std::max(generation, answer.generation);
  unsent.configured.push_back(answer);
  if (unsent.configured.size() >= roles.replicas.size())
    flush();
  else if (unsent.configured.size() == 1) // flush soon: the chief waits
    self->delayed_send(self, max_answer_delay, atom::flush_v);
}

/// Returns the entry of a replica in `next_steps`. Null: no run has begun, or
/// the replica is not in this process.
std::uint64_t* local_agent_state::next_step_of(std::uint32_t replica) {
  if (next_steps.empty() || !options.placement.hosts(replica))
    return nullptr;
  return &next_steps[options.placement.job.index_of(replica)];
}

void local_agent_state::on_step_done(const step_commit::step_done& report) {
  if (auto* next = next_step_of(report.replica);
      next && report.generation == generation)
    *next = std::max(*next, report.step + 1);
  unsent.steps_done.push_back(report);
  const auto batch_size =
    options.report_batch * std::max<std::size_t>(next_steps.size(), 1);
  // A batch must fit a control frame, also if the reports have many sums.
  constexpr std::size_t max_batch_numbers = 65'536;
  const auto numbers =
    unsent.steps_done.size() * (report.metrics.sums.size() + 8);
  if (unsent.steps_done.size() >= batch_size || numbers >= max_batch_numbers
      || is_awaited(report)
      || (is_complete(report.step)
          && report_sending.may_send(self->clock().now())))
    flush();
  else if (!std::exchange(flush_scheduled, true))
    self->delayed_send(self, report_sending.delay(self->clock().now()),
                       atom::flush_v);
}

/// Returns true if all replicas of this process have reported the step.
bool local_agent_state::is_complete(std::uint64_t step) const {
  return !next_steps.empty() && std::ranges::min(next_steps) > step;
}

/// Returns true if all replicas of this process have reported the first or the
/// last step of the run. The first step shows that the job makes progress.
/// After the last step the chief waits for the reports in `unsent`.
bool local_agent_state::is_awaited(const step_commit::step_done& report) const {
  const bool is_last = report.step + 1 >= end_step;
  if (next_steps.empty())
    return is_last;
  return (is_last || report.step == first_step) && is_complete(report.step);
}

void local_agent_state::on_failed(const step_commit::failed& failure) {
  forward(message_kind::failed, failure);
  if (failure.generation != generation)
    return;
  // If the chief's process dies, a replica may detect this and fail before the
  // agent learns that the chief is lost. Keep the failure for the agent's
  // report of the loss.
  replica_failure = failure.report;
  if (handling_loss)
    terminate_run();
}

void local_agent_state::on_wait_report(const step_commit::wait_report& report) {
  unsent.wait_reports.push_back(report);
  if (unsent.wait_reports.size() >= roles.replicas.size())
    flush();
  else if (unsent.wait_reports.size() == 1) // flush soon: the chief waits
    self->delayed_send(self, max_answer_delay, atom::flush_v);
  const auto* next = next_step_of(report.id);
  if (!handling_loss || report.generation != generation || !next)
    return;
  // if the replica has reported this step since, ask about its next step
  if (report.step < *next)
    return probe(static_cast<std::uint32_t>(next - next_steps.data()));
  if (std::ranges::count(wait_reports, report.id,
                         &step_commit::wait_report::id))
    return; // it has also reported a suspicion
  wait_reports.push_back(report);
  if (wait_reports.size() < roles.replicas.size())
    return;
  terminate_run();
}

void local_agent_state::on_join(const run_barrier::join& request) {
  if (request.run <= joined)
    return; // a duplicate request must not reset the run
  joined = run = request.run;
  replica_failure.reset();
  next_delivery = acknowledged = first_step = request.first;
  reorder_buffer.clear();
  run_end.reset();
  next_steps.assign(roles.replicas.size(), request.first);
  end_step = step_commit::end_step(request.first, request.steps);
  forward(message_kind::join, request);
}

/// Commits may arrive in any order and more than once. The caller of `run` gets
/// each commit once, in order of steps.
void local_agent_state::on_commits(const commit_batch& batch) {
  if (batch.run != run)
    return;
  for (const auto& record : batch.records) {
    if (record.step
        >= std::min(end_step, acknowledged + 2 * options.step_window))
      return terminate({.kind = failure_kind::commit_out_of_order,
                        .code = ec::protocol,
                        .processes = {0},
                        .run = run,
                        .step = record.step,
                        .expected_step = next_delivery});
    if (record.step >= next_delivery)
      reorder_buffer.emplace(record.step, record);
  }
  deliver_commits();
}

void local_agent_state::on_commit_ack(const commit_ack& ack) {
  if (ack.run == run)
    acknowledged = std::max(acknowledged, ack.next_step);
  forward(message_kind::notification, ack);
}

void local_agent_state::on_completed(const run_completed& end) {
  if (end.run != run)
    return;
  run_end = end.next_step;
  deliver_commits();
}

void local_agent_state::deliver_commits() {
  for (auto it = reorder_buffer.begin();
       it != reorder_buffer.end() && it->first == next_delivery;
       it = reorder_buffer.erase(it), ++next_delivery)
    options.listener->on_committed(run, std::move(it->second));
  if (run_end && *run_end <= next_delivery)
    options.listener->on_completed(std::exchange(run, 0), *run_end);
}

void local_agent_state::on_aborted(const run_aborted& x) {
  const auto& job = options.placement.job;
  if (!is_possible(x.report, job.processes(), job.replicas()))
    return terminate({.kind = failure_kind::malformed_report,
                      .code = ec::protocol,
                      .processes = {0},
                      .run = x.run});
  clear_run(x.run);
  options.listener->on_aborted(x.run, failure_report{x.report});
}

void local_agent_state::clear_run(std::uint64_t of_run) {
  if (run == of_run)
    run = 0;
}

void local_agent_state::on_skeleton(const caf::actor_addr& skeleton) {
  chief_skeleton = skeleton;
  if (const auto actor = caf::actor_cast<caf::actor>(skeleton))
    self->monitor(actor);
  else
    on_chief_drained();
}

/// Handles the end of the chief or of the skeleton that receives the chief's
/// messages. The skeleton may deliver messages after the chief's end is
/// reported, and one of them may end the run regularly. So the agent handles
/// the loss when the chief and the skeleton have ended, or `drain_timeout`
/// after the end of the chief.
void local_agent_state::on_lost(const caf::down_msg& down) {
  if (down.source == chief_skeleton)
    on_chief_drained();
  else
    on_chief_lost(down.reason);
}

void local_agent_state::on_chief_lost(const caf::error& reason) {
  if (std::exchange(chief_lost, true))
    return;
  loss_code = reason == ec::unreachable ? ec::unreachable : ec::peer_lost;
  if (reason && reason != caf::exit_reason::user_shutdown)
    loss_cause = wire::to_wire(reason, self->system()).text;
  if (chief_drained)
    on_chief_drained();
  else
    self->delayed_send(self, options.drain_timeout, atom::missing_v);
}

void local_agent_state::on_chief_drained() {
  chief_drained = true;
  if (!chief_lost || std::exchange(handling_loss, true))
    return;
  if (run == 0 || replica_failure)
    return terminate_run();
  for (std::uint32_t i = 0; i < roles.replicas.size(); ++i)
    probe(i);
  self->delayed_send(self, options.probe_timeout, atom::watchdog_v);
}

void local_agent_state::probe(std::uint32_t i) {
  sender.send(replica_id(options.placement.replicas()[i]), roles.replicas[i],
              message_kind::probe, generation, next_steps[i],
              step_commit::probe{generation, next_steps[i]});
}

/// Terminates the agent because the chief is lost. The report says what the
/// replicas waited for, or why a replica has failed.
void local_agent_state::terminate_run() {
  failure_report report{.kind = run > 0
                                  ? failure_kind::process_lost
                                  : failure_kind::process_lost_between_runs,
                        .code = loss_code,
                        .processes = {0},
                        .replicas = options.placement.job.replicas_of(0),
                        .run = run,
                        .cause = loss_cause};
  if (run > 0) {
    report.step = first_unreported_step();
    step_commit::add_waits(report, wait_reports, {}, {});
  }
  if (replica_failure)
    add_failure(report, *replica_failure);
  shorten(report);
  terminate(std::move(report));
}

/// Makes all replicas leave their steps, reports the error to the listener and
/// terminates the agent.
void local_agent_state::terminate(failure_report report) {
  for (std::uint32_t i = 0; i < roles.replicas.size(); ++i) {
    const auto id = options.placement.replicas()[i];
    sender.send(replica_id(id), roles.replicas[i], message_kind::configure,
                last_generation, 0,
                step_commit::configure{last_generation, id, 1});
  }
  if (const auto listener = std::exchange(options.listener, {}))
    listener->on_group_terminated(report);
  self->quit();
}

local_agent_internal_actor::behavior_type local_agent(
  local_agent_internal_actor::stateful_pointer<local_agent_state> self,
  local_agent_options options, message_sender sender) {
  install_exception_handler(self);
  auto& state = self->state;
  state.options = std::move(options);
  state.sender = std::move(sender);
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->state.on_lost(x); });
  return {
    [&state](const step_commit::configured& x) { state.on_configured(x); },
    [&state](const step_commit::step_done& x) { state.on_step_done(x); },
    [&state](const step_commit::failed& x) { state.on_failed(x); },
    [&state](const step_commit::wait_report& x) { state.on_wait_report(x); },
    [&state](const commit_batch& x) { state.on_commits(x); },
    [&state](const run_completed& x) { state.on_completed(x); },
    [&state](const run_aborted& x) { state.on_aborted(x); },
    [&state](const run_barrier::join& x, const step_function_ref&) {
      state.on_join(x);
    },
    [&state](const commit_ack& x) { state.on_commit_ack(x); },
    [&state](const run_barrier::stop& x) {
      state.forward(message_kind::notification, x);
    },
    [self, &state](atom::status) -> caf::result<job_status> {
      if (state.chief_lost || !state.roles.chief)
        return caf::make_error(ec::peer_lost, std::string{"the chief is lost"});
      return self->delegate(state.roles.chief, atom::status_v);
    },
    [self, &state](const local_roles& x) {
      state.roles = x;
      self->monitor(x.chief);
    },
    [&state](const caf::actor_addr& x) { state.on_skeleton(x); },
    [&state](atom::flush) {
      state.flush_scheduled = false;
      state.flush();
    },
    [&state](atom::watchdog) { state.terminate_run(); },
    [&state](atom::missing) { state.on_chief_drained(); },
  };
}

} // namespace troupe
