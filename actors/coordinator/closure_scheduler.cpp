#include "troupe/actors/coordinator/closure_scheduler.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>
#include <variant>

namespace troupe {

namespace {

/// `unfinished_closures` limits the closures of the program before.
constexpr auto max_unfinished = std::numeric_limits<std::uint64_t>::max();

} // namespace

closure_scheduler_state::~closure_scheduler_state() {
  if (config.on_broken)
    fail_all("the scheduler of the closures has ended");
}

void closure_scheduler_state::configure(closure_scheduler_config how) {
  config = std::move(how);
  coordinator::records earlier;
  earlier.first = config.first;
  machine.emplace(config.shards, max_unfinished, config.life,
                  std::move(earlier));
  self->monitor(config.router);
}

void closure_scheduler_state::schedule(shared_closure what) {
  if (is_broken || machine->is_handling_error())
    return what->cancel();
  waiting.push_back(std::move(what));
  accept_waiting();
}

/// Gives the state machine the closures that it can take.
void closure_scheduler_state::accept_waiting() {
  while (!waiting.empty() && machine->can_schedule()) {
    auto what = std::move(waiting.front());
    waiting.pop_front();
    closures.emplace(machine->scheduled(), what);
    perform(machine->schedule(what, what->waits_for_others));
  }
}

void closure_scheduler_state::add_worker(const new_worker& x) {
  if (!workers.emplace(x.id, x.worker).second)
    throw std::logic_error("there is a worker " + std::to_string(x.id)
                           + " already");
  self->monitor(x.worker);
  perform(machine->on_worker(x.id, x.places));
}

void closure_scheduler_state::remove_worker(std::uint64_t worker) {
  if (workers.erase(worker) > 0)
    perform(machine->on_worker_lost(worker));
}

/// No effect if another execution of the closure has begun.
void closure_scheduler_state::on_report(const coordinator::execution& from,
                                        const tensors& what) {
  const auto found = closures.find(from.ordinal);
  if (found == closures.end() || from.life != config.life
      || from.attempt <= found->second->stopped_attempts)
    return;
  if (const auto& to = found->second->listener)
    to->on_report(what);
}

void closure_scheduler_state::on_down(const caf::down_msg& x) {
  const auto worker = std::ranges::find_if(
    workers, [&](const auto& one) { return one.second == x.source; });
  if (worker != workers.end()) {
    const auto id = worker->first;
    config.on_worker_lost(id, self->system().render(x.reason));
    return remove_worker(id);
  }
  if (config.router != x.source)
    return;
  const auto why = wire::to_wire(x.reason, self->system());
  fail_all(why.code == ec::peer_lost && !why.text.empty()
             ? why.text
             : "the connection to the parameter servers has ended: "
                 + why.text);
}

/// Cancels all closures, because no other one can be done.
void closure_scheduler_state::fail_all(const std::string& why) {
  if (std::exchange(is_broken, true))
    return;
  config.on_broken(why);
  cancel_all();
}

void closure_scheduler_state::cancel_all() {
  for (const auto& [ordinal, what] : std::exchange(closures, {})) {
    what->stopped_attempts = ~std::uint32_t{0};
    what->cancel();
  }
  for (const auto& what : std::exchange(waiting, {}))
    what->cancel();
}

// -- effects ------------------------------------------------------------------

void closure_scheduler_state::perform(coordinator::reaction&& effects) {
  if (is_broken)
    return;
  for (auto& one : effects)
    std::visit([this](auto& x) { perform(x); }, one);
}

void closure_scheduler_state::perform(coordinator::send_run& x) {
  const auto& what = closures.at(x.run.execution.ordinal);
  // An attempt that was given up ends, also if its worker goes on.
  what->stopped_attempts = x.run.execution.attempt - 1;
  self->send(workers.at(x.worker), x.run, what);
}

void closure_scheduler_state::perform(coordinator::send_cancel& x) {
  closures.at(x.cancel.execution.ordinal)->stopped_attempts =
    x.cancel.execution.attempt;
  self->send(workers.at(x.worker), x.cancel);
}

void closure_scheduler_state::perform(coordinator::send_decision& x) {
  self->request(config.router, config.timeout, x.shard, x.decision)
    .then(
      [this](const coordinator::decided& answer) {
        perform(machine->on(answer));
        accept_waiting();
      },
      [this, shard = x.shard,
       ordinal = x.decision.execution.ordinal](const caf::error& e) {
        const auto found = wire::to_wire(e, self->system());
        if (found.code == ec::invalid) { // its worker has stored nothing there
          log(log_level::error,
              "parameter server " + std::to_string(shard) + ": " + found.text);
          perform(machine->on(coordinator::decided{shard, ordinal}));
          return accept_waiting();
        }
        fail_all("parameter server " + std::to_string(shard)
                 + " did not answer a decision: " + found.text);
      });
}

shared_closure closure_scheduler_state::take(std::uint64_t ordinal) {
  return std::move(closures.extract(ordinal).mapped());
}

/// Returns the listener of a closure that is done or has thrown.
std::shared_ptr<closure_listener>
closure_scheduler_state::settle(std::uint64_t ordinal) {
  return std::exchange(take(ordinal)->listener, nullptr);
}

void closure_scheduler_state::perform(coordinator::result_ready& x) {
  settle(x.ordinal)->on_ready(std::move(x.result));
}

void closure_scheduler_state::perform(coordinator::cancelled& x) {
  take(x.ordinal)->cancel();
}

void closure_scheduler_state::perform(coordinator::error_ready& x) {
  for (const auto& one : std::exchange(waiting, {}))
    one->cancel();
  const auto& error = *static_cast<const closure_failure*>(x.error.get());
  settle(x.ordinal)->on_failed(error.thrown, error.worker);
}

void closure_scheduler_state::perform(coordinator::record_end& x) {
  const auto& which = x.end.execution;
  *closures.at(which.ordinal)->counted_attempt = which.attempt;
}

void closure_scheduler_state::perform(coordinator::protocol_error& x) {
  const auto found = workers.find(x.worker);
  if (found == workers.end())
    return;
  caf::anon_send_exit(found->second, caf::exit_reason::user_shutdown);
  config.on_worker_lost(x.worker, x.reason);
  remove_worker(x.worker);
}

closure_scheduler_actor::behavior_type closure_scheduler(
  closure_scheduler_actor::stateful_pointer<closure_scheduler_state> self,
  closure_scheduler_config config) {
  install_exception_handler(self);
  self->state.configure(std::move(config));
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->state.on_down(x); });
  const auto perform = [self](coordinator::reaction&& effects) {
    self->state.perform(std::move(effects));
    self->state.accept_waiting();
  };
  return {
    [self](const shared_closure& what) { self->state.schedule(what); },
    [self](const new_worker& x) { self->state.add_worker(x); },
    [self](atom::stop, std::uint64_t worker) {
      self->state.remove_worker(worker);
    },
    [self](atom::resume) {
      if (self->state.machine->has_error())
        self->state.machine->resume();
    },
    [self](std::uint64_t, const coordinator::execution& from,
           const tensors& what) { self->state.on_report(from, what); },
    [self, perform](std::uint64_t worker, const coordinator::ended& x,
                    const coordinator::payload& result) {
      perform(self->state.machine->on(worker, x, result));
    },
    [self, perform](std::uint64_t worker, const coordinator::failed& x,
                    const closure_failure& error) {
      perform(self->state.machine->on(
        worker, x, std::make_shared<const closure_failure>(error)));
    },
    [self, perform](std::uint64_t worker, const coordinator::stopped& x) {
      perform(self->state.machine->on(worker, x));
    },
  };
}

} // namespace troupe
