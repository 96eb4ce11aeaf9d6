#include "troupe/actors/control/chief.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <caf/exit_reason.hpp>

#include <algorithm>

namespace troupe {

namespace {

template <class... Fs>
struct overload : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overload(Fs...) -> overload<Fs...>; // clang 14 requires this guide

/// Delay before the chief handles the termination of a replica in another
/// process. In this time the replica's last reports, or the loss of its whole
/// process, may arrive.
constexpr auto replica_loss_delay = 2 * max_batch_delay;

} // namespace

void chief_state::open(const chief_options& new_options,
                       message_sender new_sender) {
  options = new_options;
  sender = std::move(new_sender);
  commits = std::make_unique<step_commit::state_machine>(
    options.step_window, options.processes.placement);
  barrier = std::make_unique<run_barrier::state_machine>(
    options.processes.placement.processes());
}

void chief_state::set_roles(const job_roles& new_roles) {
  roles = new_roles;
  const auto monitor_role = [this](const auto& who, const role_id& as) {
    self->monitor(who);
    role_ids.emplace(who.address(), as);
  };
  for (std::uint32_t r = 0; r < roles.replicas.size(); ++r)
    monitor_role(roles.replicas[r], replica_id(r));
  for (std::uint32_t r = 0; r < roles.reducers.size(); ++r)
    monitor_role(roles.reducers[r], {role_id::kind::reducer, r});
  for (std::uint32_t p = 0; p < roles.clients.size(); ++p)
    if (roles.clients[p].remote)
      monitor_role(roles.clients[p].remote, {role_id::kind::local_agent, p});
  perform(commits->open());
}

void chief_state::on_batch(const owner_batch& batch) {
  for (const auto& one : batch.configured)
    perform(commits->on(one));
  in_batch = true; // its commits are sent together
  for (const auto& one : batch.steps_done)
    perform(commits->on(one));
  in_batch = false;
  send_commits();
  for (const auto& one : batch.wait_reports)
    on_wait_report(one);
}

void chief_state::on_wait_report(const step_commit::wait_report& report) {
  if (!commits->is_possible(report)
      || (report.reducer && report.id >= roles.reducers.size()))
    return; // the peer violates the protocol; ignore its report
  record_suspicions(report);
  survey.on_wait_report(report);
  perform(commits->on(report));
}

void chief_state::on_commit_ack(const commit_ack& ack) {
  if (run == 0 || ack.run != run || ack.process >= acknowledged.size())
    return;
  acknowledged[ack.process] =
    std::max(acknowledged[ack.process], ack.next_step);
  perform(commits->acknowledge(*std::ranges::min_element(acknowledged)));
}

bool chief_state::is_local(std::uint32_t replica) const {
  return !roles.clients[options.processes.placement.process_of(replica)].remote;
}

void chief_state::on_lost(const caf::down_msg& down) {
  const auto it = role_ids.find(down.source);
  if (it == role_ids.end())
    return;
  const auto id = it->second;
  role_ids.erase(it);
  if (id.role == role_id::kind::local_agent)
    return on_process_lost(id.id, down.reason);
  const auto reason = self->system().render(down.reason);
  if (id.role == role_id::kind::reducer)
    perform(commits->on_reducer_lost(id.id, reason));
  else if (is_local(id.id))
    perform(commits->on_lost(id.id, reason));
  else // wait: the loss of its whole process may be reported next
    self->delayed_send(self, replica_loss_delay, atom::ended_v, id.id, reason);
}

void chief_state::on_process_lost(std::uint32_t process,
                                  const caf::error& reason) {
  const auto code = reason == ec::unreachable ? ec::unreachable : ec::peer_lost;
  const auto text = !reason || reason == caf::exit_reason::user_shutdown
                      ? ""
                      : wire::to_wire(reason, self->system()).text;
  perform(barrier->on_lost(process, code, text));
  perform(commits->on_process_lost(process, code, text));
}

std::uint64_t chief_state::shown(std::uint64_t step) const {
  return user_step_of(call, first_step, step).value_or(step);
}

void chief_state::perform(run_barrier::reaction effects) {
  const overload act{
    [this](run_barrier::start& start) {
      run = start.request.run;
      first_step = start.request.first;
      call = start.request.call;
      if (const auto next = user_step_of(call, first_step, first_step))
        next_user_step = next;
      rate.begin(self->clock().now(), start.request.first);
      acknowledged.assign(roles.clients.size(), start.request.first);
      if (!run_function.function)
        run_function.name = "run " + std::to_string(run);
      perform(commits->run(start.request.first, start.request.steps));
      if (start.stopped)
        perform(commits->stop());
    },
    [this](run_barrier::halt&) { perform(commits->stop()); },
    [this](run_barrier::reject& x) {
      if (roles.clients[x.process].listener)
        run_function = {};
      notify_aborted(x.process, x.run, std::move(x.report));
    },
    [this](run_barrier::abort& x) {
      perform(commits->end_with(std::move(x.report)));
    },
  };
  for (auto& effect : effects)
    std::visit(act, effect);
}

/// Sets the watchdog timer if the step-commit machine waits for a message, and
/// cancels the timer otherwise. The timer expires `step_timeout` after the last
/// progress, or `probe_timeout` after a probe was sent.
void chief_state::update_watchdog() {
  const auto now = self->clock().now();
  if (progress_count != commits->progress_count()) {
    progress_count = commits->progress_count();
    last_progress = now;
  }
  if (!commits->busy()) {
    ++watchdog_id; // invalidates a timer that was set
    watchdog_armed = false;
  } else if (!watchdog_armed || watchdog_probing != commits->probing()) {
    watchdog_armed = true;
    watchdog_probing = commits->probing();
    const auto wait = watchdog_probing ? probe_timeout() : options.step_timeout;
    self->delayed_send(self, wait, atom::watchdog_v, ++watchdog_id);
  }
}

std::chrono::milliseconds chief_state::probe_timeout() const {
  return std::clamp(options.step_timeout / 4, std::chrono::milliseconds{20},
                    std::chrono::milliseconds{1000});
}

void chief_state::on_watchdog(std::uint64_t timer_id) {
  if (timer_id != watchdog_id)
    return;
  const auto rest =
    last_progress + (watchdog_probing ? probe_timeout() : options.step_timeout)
    - self->clock().now();
  if (rest > caf::timespan{0}) { // there was progress since the timer was set
    self->delayed_send(self, rest, atom::watchdog_v, ++watchdog_id);
    return;
  }
  watchdog_armed = false;
  perform(commits->on_timeout(
    static_cast<std::uint64_t>(options.step_timeout.count())));
}

template <class Message>
void chief_state::send_to_replicas(message_kind kind, std::uint64_t step,
                                   const Message& message) {
  for (std::uint32_t r = 0; r < roles.replicas.size(); ++r)
    sender.send(replica_id(r), roles.replicas[r], kind, message.generation,
                step, message);
}

void chief_state::probe(const step_commit::probe& question) {
  send_to_replicas(message_kind::probe, question.step, question);
  probe_reducers(question);
}

void chief_state::probe_reducers(const step_commit::probe& question) {
  for (std::uint32_t r = 0; r < roles.reducers.size(); ++r)
    sender.send({role_id::kind::reducer, r}, roles.reducers[r],
                message_kind::probe, question.generation, question.step,
                question);
}

void chief_state::perform(step_commit::reaction effects) {
  const overload act{
    [this](step_commit::send_configure& x) {
      record_event(options.recorder,
                   {.kind = flight_event_kind::generation_begun,
                    .generation = x.message.generation,
                    .run = run});
      for (const auto r : x.replicas) {
        x.message.replica = r;
        sender.send(replica_id(r), roles.replicas[r], message_kind::configure,
                    x.message.generation, 0, x.message);
      }
    },
    [this](step_commit::send_start& x) {
      for (std::uint32_t r = 0; r < roles.replicas.size(); ++r)
        sender.send(replica_id(r), roles.replicas[r], message_kind::start_steps,
                    x.message.generation, x.message.first, x.message,
                    run_function);
    },
    [this](step_commit::send_grant& x) {
      record_event(options.recorder, {.kind = flight_event_kind::steps_granted,
                                      .generation = x.message.generation,
                                      .run = run,
                                      .step = shown(x.message.until)});
      send_to_replicas(message_kind::grant, x.message.until, x.message);
    },
    [this](step_commit::send_probe& x) { probe(x.message); },
    [this](step_commit::committed& x) {
      rate.on_commit(self->clock().now(), x.record.step + 1);
      if (const auto next = user_step_of(call, first_step, x.record.step + 1))
        next_user_step = next;
      notify_commit(std::move(x.record));
    },
    [this](step_commit::completed& x) {
      run_function = {};
      barrier->finished();
      notify_completed(x.next);
      run = 0;
    },
    [this](step_commit::aborted& aborted) {
      run_function = {};
      barrier->finished();
      flush();
      const auto of_run = std::exchange(run, 0);
      for (auto p = std::uint32_t(roles.clients.size()); p-- > 0;)
        notify_aborted(p, of_run, aborted.report);
    },
  };
  for (auto& effect : effects)
    std::visit(act, effect);
  update_watchdog();
}

chief_internal_actor::behavior_type
chief(chief_internal_actor::stateful_pointer<chief_state> self,
      chief_options options, message_sender sender) {
  install_exception_handler(self);
  self->state.open(options, std::move(sender));
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->state.on_lost(x); });
  const auto handle = [self](const auto& x) {
    self->state.perform(self->state.commits->on(x));
  };
  return {
    [=](const step_commit::configured& x) { handle(x); },
    [=](const step_commit::step_done& x) { handle(x); },
    [=](const step_commit::failed& x) { handle(x); },
    [self](const step_commit::wait_report& x) {
      self->state.on_wait_report(x);
    },
    [self](const owner_batch& x) { self->state.on_batch(x); },
    [self](const run_barrier::join& x) { self->state.join(x); },
    [self](const commit_ack& x) { self->state.on_commit_ack(x); },
    [self](const run_barrier::stop& x) {
      self->state.perform(self->state.barrier->on(x));
    },
    [self](const job_roles& x) { self->state.set_roles(x); },
    [self](const run_barrier::join& x, const step_function_ref& fn) {
      self->state.run_function = fn;
      self->state.join(x);
    },
    [self](atom::status) { return self->state.status(); },
    [self](atom::watchdog, std::uint64_t timer_id) {
      self->state.on_watchdog(timer_id);
    },
    [self](atom::missing) { self->state.on_join_timer(); },
    [self](atom::ended, std::uint32_t replica, const std::string& why) {
      self->state.perform(self->state.commits->on_lost(replica, why));
    },
    [self](atom::flush) {
      self->state.flush_scheduled = false;
      self->state.flush();
    },
    [self](atom::status, std::uint64_t number) {
      self->state.on_survey_timeout(number);
    },
  };
}

} // namespace troupe
