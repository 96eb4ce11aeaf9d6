#include "troupe/actors/replica/replica.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/exception_text.hpp"
#include "troupe/actors/core/run_ended.hpp"
#include "troupe/actors/replica/replica_step_context.hpp"
#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>

namespace troupe {

namespace {

const role_id chief_id{role_id::kind::chief, 0};

/// Time after which a replica that still suspects a process reports it again.
constexpr std::chrono::milliseconds suspicion_report_interval{200};

/// True if an exception of a step means that the job has lost the process of
/// the replica, not that the step function has failed.
bool is_loss(const std::exception_ptr& x) {
  try {
    std::rethrow_exception(x);
  } catch (const run_ended&) {
    return true;
  } catch (const device_lost&) {
    return true;
  } catch (...) {
    return false;
  }
}

} // namespace

replica_state::~replica_state() {
  newest_generation = ~std::uint64_t{0}; // makes every wait throw `superseded`
  step_fiber.reset();
  if (in_step)
    backend->end_step();
}

void replica_state::configure(const replica_config& config,
                              replica_owner_actor replica_owner) {
  id = config.id;
  options = config.options;
  incarnation = config.incarnation;
  registry = config.registry;
  backend = config.backend;
  sender = {replica_id(id), nullptr, config.faults};
  owner = std::move(replica_owner);
  prepare(own_context, options, id, 0);
  step = std::make_unique<replica_step_context>(*this);
  step_fiber = std::make_unique<fiber>(&own_context);
}

// -- messages of the chief ----------------------------------------------------

void replica_state::on_configure(const step_commit::configure& x) {
  if (x.generation == generation && !in_step && !failed)
    return send_configured(); // the chief did not receive the acknowledgement
  newest_generation = std::max(newest_generation, x.generation);
  make_progress();
}

void replica_state::on_start_steps(const step_commit::start_steps& start,
                                   const step_function_ref& fn) {
  if (start.generation != generation || is_superseded() || in_step
      || start.first < next_step)
    return;
  run_function = fn;
  next_step = start.first;
  if (!run_function.function && registry)
    run_function.function = registry->find(fn.name);
  if (!run_function.function)
    return fail({.kind = failure_kind::step_function_unknown,
                 .code = ec::protocol,
                 .cause = fn.name});
  granted_until = start.until;
  make_progress();
}

void replica_state::on_grant(const step_commit::grant& x) {
  if (x.generation != generation || is_superseded())
    return;
  granted_until = std::max(granted_until, x.until);
  make_progress();
}

void replica_state::on_probe(const step_commit::probe& probe) {
  if (probe.generation != generation)
    return;
  if (is_next_step(probe.step)) { // answer after the pending `next` message
    self->send(self, probe);
    return;
  }
  sender.send(chief_id, owner, message_kind::wait_report, generation,
              probe.step, make_wait_report(probe.step));
}

step_commit::wait_report
replica_state::make_wait_report(std::uint64_t step_number) const {
  step_commit::wait_report report{
    generation,         step_number,      false, id,
    current_activity(), awaited_bucket(), {}};
  if (next_step != step_number)
    report.current_activity = step_commit::activity::idle;
  report.missing = missing_replicas(step_number);
  if (const auto failure = backend->last_failure();
      awaited && failure && failure->suspect)
    report.suspects = {*failure->suspect};
  return report;
}

/// Reports that the path to a process has ended; the chief decides what
/// follows. The report is repeated from time to time, since a message can be
/// lost.
void replica_state::report_suspicion() {
  const auto now = self->clock().now();
  if (now < next_suspicion_report)
    return;
  next_suspicion_report = now + suspicion_report_interval;
  sender.send(chief_id, owner, message_kind::wait_report, generation, next_step,
              make_wait_report(next_step));
}

bool replica_state::is_next_step(std::uint64_t number) const {
  return !in_step && !is_superseded() && run_function.function
         && next_step == number && next_step < granted_until;
}

void replica_state::run_task(const replica_task& task) {
  std::string problem;
  if (in_step) {
    problem = "the replica is in step " + std::to_string(next_step);
  } else {
    use_threads(options.threads);
    const context_scope scope{own_context};
    const flush_denormals flushing;
    try {
      (*task.function)(id);
    } catch (...) {
      problem = exception_text(std::current_exception());
    }
  }
  task.listener->on_task_done(task.number, id, std::move(problem));
}

// -- steps --------------------------------------------------------------------

void replica_state::make_progress() {
  for (;;) {
    if (in_step) {
      if (is_superseded())
        step_fiber->abort();
      else
        step_fiber->resume();
      if (!step_fiber->done())
        return; // the step function waits
      end_step();
      if (next_step < granted_until) { // read the mailbox before the next step
        self->send(self, atom::next_v);
        return;
      }
    }
    if (newest_generation > generation)
      begin_generation();
    if (!backend->serve())
      fail_with(*backend->last_failure());
    if (!failed && run_function.function && next_step < granted_until)
      start_step();
    else if (backend->park())
      return;
  }
}

void replica_state::start_step() {
  in_step = true;
  next_suspicion_report = {};
  update_begun = false;
  backend->begin_step(next_step);
  prepare(own_context, options, id, next_step);
  prepare(*step, options, id, next_step, generation);
  step_fiber->start([this] {
    (*run_function.function)(*step);
    step->wait_until_drained();
  });
}

void replica_state::end_step() {
  in_step = false;
  awaited.reset();
  backend->end_step();
  if (update_begun && !step_fiber->error())
    first_unapplied =
      next_step + 1; // even if the chief has since aborted the step
  if (const auto thrown = step_fiber->error()) {
    fail({.kind = failure_kind::step_failed,
          .code = is_loss(thrown) ? ec::peer_lost : ec::invalid,
          .cause = exception_text(thrown)});
  } else if (!is_superseded()) {
    sender.send(chief_id, owner, message_kind::step_done, generation, next_step,
                step_commit::step_done{generation, next_step, id, incarnation,
                                       step->report});
    ++next_step;
  }
}

/// Reports a failure to the owner. Sets the replica and the step of the report.
void replica_state::fail(failure_report report) {
  if (failed)
    return;
  failed = true;
  report.replicas = {id};
  report.step = next_step;
  shorten(report);
  sender.send(chief_id, owner, message_kind::failed, generation, next_step,
              step_commit::failed{generation, next_step, id, incarnation,
                                  std::move(report)});
}

/// Reports to the owner that this replica has failed, because its wait lasted
/// longer than the timeout that the step function set.
void replica_state::fail_for_timeout(std::chrono::milliseconds waited) {
  fail({.kind = failure_kind::wait_timed_out,
        .code = ec::stalled,
        .timeout_ms = static_cast<std::uint64_t>(waited.count()),
        .waits = {current_wait(next_step)}});
}

step_commit::activity replica_state::current_activity() const {
  if (!in_step)
    return step_commit::activity::idle;
  if (!awaited)
    return step_commit::activity::computing;
  return collective_backend::activity_of(*awaited);
}

/// Returns the bucket that the step function waits for. If it waits for all
/// buckets, that is the first incomplete one.
std::uint32_t replica_state::awaited_bucket() const {
  using kind = collective_backend::wait_condition::kind;
  if (!awaited)
    return 0;
  if (awaited->event == kind::sum || awaited->event == kind::gather)
    return awaited->bucket;
  return backend->first_incomplete().value_or(awaited->bucket);
}

/// Returns what this replica does and which replicas delay a step.
role_wait replica_state::current_wait(std::uint64_t step_number) const {
  return {false, id, current_activity(), awaited_bucket(),
          missing_replicas(step_number)};
}

/// Returns the replicas that delay a step, as far as this replica can determine
/// them.
std::vector<std::uint32_t>
replica_state::missing_replicas(std::uint64_t number) const {
  return backend->missing(number, in_step ? awaited : std::nullopt);
}

/// Fails because the collectives cannot continue. If a peer process has
/// violated the protocol, the report also says what this replica waits for.
void replica_state::fail_with(const collective_backend::failure& failure) {
  if (!failure.peer)
    return fail({.kind = failure_kind::step_failed,
                 .code = failure.code,
                 .cause = failure.cause});
  fail({.kind = failure_kind::peer_violation,
        .code = failure.code,
        .processes = {*failure.peer},
        .cause = failure.cause,
        .waits = {current_wait(next_step)}});
}

void replica_state::begin_generation() {
  generation = newest_generation;
  failed = false;
  next_suspicion_report = {};
  run_function = {};
  next_step = granted_until = 0;
  backend->begin_generation(generation);
  use_threads(options.threads);
  send_configured();
}

void replica_state::send_configured() {
  sender.send(
    chief_id, owner, message_kind::configured, generation, next_step,
    step_commit::configured{generation, id, incarnation, first_unapplied});
}

// -- behavior -----------------------------------------------------------------

replica_internal_actor::behavior_type
replica(replica_internal_actor::stateful_pointer<replica_state> self,
        replica_config config, replica_owner_actor owner) {
  install_exception_handler(self);
  self->state.configure(config, std::move(owner));
  const auto receive = [self](message_kind what, const tree::slice_key& at,
                              const tensor& data, const tensor& output) {
    self->state.backend->deliver({what, at, data, output});
    self->state.make_progress();
  };
  return {
    [=](const tree::contribution& x, const tensor& data, const tensor& output) {
      receive(message_kind::contribution, x.key, data, output);
    },
    [self](const step_commit::probe& x) { self->state.on_probe(x); },
    [self](const step_commit::configure& x) { self->state.on_configure(x); },
    [self](const step_commit::start_steps& x, const step_function_ref& fn) {
      self->state.on_start_steps(x, fn);
    },
    [self](const step_commit::grant& x) { self->state.on_grant(x); },
    [=](const tree::reduced_slice& x, const tensor& whole) {
      receive(message_kind::result, x.key, whole, {});
    },
    [=](const tree::gather_contribution& x, const tensor& part) {
      receive(message_kind::gather_contribution, x.key, part, {});
    },
    [self](const replica_task& x) { self->state.run_task(x); },
    [self](atom::wake) {
      self->state.wake_pending = false;
      self->state.make_progress();
    },
    [self](atom::next) { self->state.make_progress(); },
    [self](atom::watchdog) {
      self->state.suspicion_timer_set = false;
      self->state.make_progress();
    },
  };
}

} // namespace troupe
