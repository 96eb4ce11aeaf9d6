#include "troupe/actors/replica/replica.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/replica/replica_step_context.hpp"
#include "troupe/strategies/step_commit/stall_report.hpp"

#include <algorithm>

namespace troupe {

namespace {

const role_id chief_id{role_id::kind::chief, 0};

std::string exception_text(const std::exception_ptr& x) {
  try {
    std::rethrow_exception(x);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not derived from std::exception";
  }
}

} // namespace

replica_state::~replica_state() {
  newest_generation = ~std::uint64_t{0}; // makes every wait throw `superseded`
  step_fiber.reset();
  if (backend && in_step)
    backend->end_step(id);
}

void replica_state::configure(const replica_config& config,
                              replica_owner_actor replica_owner) {
  id = config.id;
  options = config.options;
  incarnation = config.incarnation;
  replicas = options.replicas;
  reducers = config.reducers;
  transport = config.transport;
  registry = config.registry;
  backend = config.backend;
  sender = {replica_id(id), config.transport, config.faults};
  owner = std::move(replica_owner);
  local_collectives = std::make_unique<tree::participant>(id, replicas);
  slice_reducers = std::make_unique<tree::slice_reducers>(replicas);
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
    return fail(step_commit::abort_cause::protocol,
                "replica " + std::to_string(id)
                  + " received a request to run the step function '" + fn.name
                  + "', which is not registered in its process");
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
  step_commit::wait_report answer{generation, probe.step,     false, id,
                                  activity,   awaited_bucket, {}};
  if (!in_step || next_step != probe.step)
    answer.current_activity = step_commit::activity::idle;
  answer.missing = missing_replicas(probe.step);
  sender.send(chief_id, owner, message_kind::wait_report, generation,
              probe.step, answer);
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
    drain_queue();
    if (newest_generation > generation)
      begin_generation();
    while (reduce_some(0)) {
    }
    if (!failed && run_function.function && next_step < granted_until)
      start_step();
    else if (transport->queue_of(id).park())
      return;
  }
}

void replica_state::start_step() {
  in_step = true;
  activity = step_commit::activity::computing;
  update_begun = false;
  local_collectives->begin_step(generation, next_step);
  if (backend)
    backend->begin_step(id, next_step);
  prepare(own_context, options, id, next_step);
  prepare(*step, options, id, next_step, generation);
  step_fiber->start([this] {
    (*run_function.function)(*step);
    static_cast<replica_step_context&>(*step).wait_until_drained();
  });
}

void replica_state::end_step() {
  in_step = false;
  activity = step_commit::activity::idle;
  if (backend)
    backend->end_step(id);
  if (update_begun && !step_fiber->error())
    first_unapplied =
      next_step + 1; // even if the chief has since aborted the step
  if (const auto thrown = step_fiber->error()) {
    fail(step_commit::abort_cause::invalid, exception_text(thrown));
  } else if (!is_superseded()) {
    sender.send(chief_id, owner, message_kind::step_done, generation, next_step,
                step_commit::step_done{generation, next_step, id, incarnation,
                                       step->report});
    ++next_step;
  }
}

void replica_state::fail(step_commit::abort_cause cause,
                         const std::string& reason) {
  if (failed)
    return;
  failed = true;
  sender.send(
    chief_id, owner, message_kind::failed, generation, next_step,
    step_commit::failed{generation, next_step, id, incarnation, cause, reason});
}

/// Reports to the owner that this replica has failed, because its wait lasted
/// longer than the timeout that the step function set.
void replica_state::fail_for_timeout(std::chrono::milliseconds waited) {
  const auto missing = missing_replicas(next_step);
  fail(step_commit::abort_cause::stalled,
       "replica " + std::to_string(id) + " waited for " + awaited_operation()
         + " in step " + std::to_string(next_step) + " for "
         + std::to_string(waited.count()) + " ms, the timeout of its call"
         + (missing.empty()
              ? ""
              : "; it misses " + step_commit::replica_list(missing)));
}

std::string replica_state::awaited_operation() const {
  const auto* operation = activity == step_commit::activity::all_gather
                            ? "the gather "
                            : "the sum of bucket ";
  return operation + std::to_string(awaited_bucket);
}

/// Returns the replicas that delay a step, as far as this replica can determine
/// them. Usually these are the replicas whose inputs are missing. While the
/// step drains, they are the replicas that have not accepted packets of this
/// process.
std::vector<std::uint32_t>
replica_state::missing_replicas(std::uint64_t number) const {
  if (backend) {
    if (auto incomplete = backend->missing_inputs(number))
      return std::move(incomplete->replicas);
    if (activity == step_commit::activity::all_reduce && draining
        && number == next_step)
      return backend->pending_receivers();
  } else if (const auto incomplete = slice_reducers->missing(number)) {
    return incomplete->replicas;
  } else if (activity == step_commit::activity::all_gather) {
    return local_collectives->missing_in_gather(awaited_bucket);
  }
  return {};
}

/// Reports to the owner that this replica has failed, because another process
/// has failed. The error text names the collective that this replica waits for.
void replica_state::fail_for_peer(const lane_backend::peer_failure& peer) {
  const auto cause = peer.reason == net::close_reason::closed
                       ? step_commit::abort_cause::lost
                     : peer.reason == net::close_reason::timed_out
                       ? step_commit::abort_cause::unreachable
                       : step_commit::abort_cause::protocol;
  fail(cause, peer.description + ", while replica " + std::to_string(id)
                + " waited for " + awaited_operation() + " in step "
                + std::to_string(next_step));
}

void replica_state::begin_generation() {
  generation = newest_generation;
  failed = false;
  run_function = {};
  next_step = granted_until = 0;
  local_collectives->begin_step(generation, 0);
  slice_reducers->begin_generation(generation);
  if (backend)
    backend->begin_generation(id, generation);
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
    self->state.on_tensor_message({what, at, data, output});
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
  };
}

} // namespace troupe
