#include "troupe/training/remote/request_runner.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/net/cluster/simple_resolver.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/strategies/failure_report.hpp"
#include "troupe/tensors/base/device_error.hpp"
#include "troupe/training/remote/step_snapshot.hpp"
#include "troupe/training/strategies/calls/client_calls.hpp"
#include "troupe/training/strategies/calls/job_call.hpp"
#include "troupe/training/strategies/calls/loop_call.hpp"
#include "troupe/training/strategies/multi_worker.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"
#include "troupe/training/support/sha256.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

using std::chrono::milliseconds;

template <class Table>
std::vector<std::string> names_of(const Table& x) {
  std::vector<std::string> out;
  for (const auto& [name, fn] : x)
    out.push_back(name);
  return out;
}

/// The client's `run` and `call` name functions of one list.
/// @errors throws std::invalid_argument that names a function of both kinds.
void check_names(const step_functions& functions) {
  for (const auto& [name, fn] : functions.run)
    if (functions.call.contains(name))
      throw std::invalid_argument("the step functions have the name \"" + name
                                  + "\" in run and in call; give each function "
                                    "a name of its own");
}

worker_status failed(bool here, ec code, std::string text) {
  worker_status out;
  out.failed_here = here;
  out.code = code;
  out.error_text = std::move(text);
  return out;
}

} // namespace

// -- the end of runs ----------------------------------------------------------

namespace {

failure_report client_lost() {
  return {.code = ec::cancelled,
          .cause = "the client has released this worker"};
}

} // namespace

void run_ender::set(function end_runs) {
  std::unique_lock hold{lock_};
  end_runs_ = std::move(end_runs);
  if (!has_ended_ || !end_runs_)
    return;
  const auto call = end_runs_;
  hold.unlock();
  call(client_lost());
}

void run_ender::end() {
  std::unique_lock hold{lock_};
  has_ended_ = true;
  const auto call = end_runs_;
  hold.unlock();
  if (call)
    call(client_lost());
}

// -- state --------------------------------------------------------------------

/// Number and results of a `run`.
struct request_runner_state::kept_results {
  std::uint64_t number = 0;
  std::shared_ptr<typed_step_results<tensors>> results;
};

request_runner_state::~request_runner_state() {
  if (strategy_)
    strategy_->state()->group->leave_at_once();
  release();
}

/// Calls `fn` and converts an exception to a status. If the exception is a
/// `job_error` with another code than `protocol`, the status says that another
/// worker failed. For any other exception, the status says that this worker
/// failed. It says so also for a `job_error` about a loss if the job has lost
/// nothing, because a function of the user has thrown it. A worker that has
/// left because its device is lost is lost itself.
template <class F>
worker_status request_runner_state::guarded(F&& fn) {
  worker_status status;
  try {
    fn(status);
    status.done = true;
  } catch (const job_error& e) {
    status = failed(e.code == ec::protocol, e.code, e.what());
    status.out_of_job =
      strategy_ && !strategy_->state()->group->belongs_to_job();
    const bool is_loss = e.code == ec::peer_lost || e.code == ec::unreachable
                         || e.code == ec::cancelled;
    if (strategy_ && is_loss && !status.out_of_job)
      status = failed(true, ec::invalid, e.what());
  } catch (const device_lost& e) {
    const bool is_out =
      strategy_ && !strategy_->state()->group->belongs_to_job();
    status = failed(!is_out, is_out ? ec::peer_lost : ec::invalid, e.what());
    status.out_of_job = is_out;
  } catch (const std::exception& e) {
    status = failed(true, ec::invalid, e.what());
  } catch (...) {
    status =
      failed(true, ec::invalid, "an exception that is no std::exception");
  }
  if (strategy_) {
    const auto& state = *strategy_->state();
    status.replica_ids = strategy_->local_replica_ids();
    status.calls = state.calls + state.loop_calls;
    if (state.must_catch_up)
      self->send(self, atom::wake_v);
  }
  return status;
}

// -- start --------------------------------------------------------------------

worker_status request_runner_state::info() {
  return guarded([this](worker_status& status) {
    if (strategy_)
      throw std::logic_error("the worker has joined already");
    join();
    try {
      make_functions();
    } catch (...) {
      strategy_->state()->group->leave_at_once();
      release();
      throw;
    }
    status.info = {strategy_->num_replicas_in_sync(),
                   strategy_->transport(),
                   names_of(functions_.run),
                   names_of(functions_.call),
                   description(),
                   strategy_->state()->group->incarnation(),
                   options.arguments.joins ? std::string{} : initial_values()};
  });
}

void request_runner_state::join() {
  const auto& arguments = options.arguments;
  multi_worker_options settings;
  settings.devices = arguments.devices;
  settings.threads = arguments.threads;
  settings.communication.bytes_per_pack = arguments.bytes_per_pack;
  settings.communication.timeout = milliseconds(arguments.timeout_ms);
  settings.communication.callback_timeout =
    milliseconds(arguments.callback_timeout_ms);
  settings.transport = arguments.transport;
  settings.start_timeout = milliseconds(arguments.start_timeout_ms);
  settings.job = arguments.job;
  settings.join_running_job = arguments.joins;
  settings.router = options.router.lock();
  if (!settings.router)
    throw job_error{ec::cancelled, "the node is shutting down"};
  net::simple_resolver::options resolver_options;
  resolver_options.task_type = "worker";
  resolver_options.task_id = arguments.index;
  const net::cluster_spec spec{std::map<std::string, net::cluster_spec::list>{
    {"worker", arguments.addresses}}};
  try {
    strategy_ = std::make_shared<const multi_worker_mirrored_strategy>(
      *options.local_runtime, net::simple_resolver{spec, resolver_options},
      settings);
  } catch (const service_exists&) { // the name of the job is unique
    throw job_error{ec::busy, "the former worker of this node has not ended; "
                              "add the node again later"};
  }
  next_request_ = arguments.first_request;
  options.channel->runs.set(strategy_->state()->group->run_terminator());
}

void request_runner_state::make_functions() {
  const auto& state = strategy_->state();
  const auto scope = strategy_->scope();
  functions_ = options.factory(*strategy_, options.arguments.argument);
  check_names(functions_);
  if (functions_.snapshot || functions_.restore) {
    snapshot_ = std::make_shared<step_snapshot>(functions_);
    state->observe(snapshot_);
  }
  begin_client_calls(state);
  // Weak: the listener must not keep the actor.
  state->group->set_view_change_listener(
    [runner = caf::actor_cast<caf::actor_addr>(self)] {
      if (const auto actor = caf::actor_cast<caf::actor>(runner))
        caf::anon_send(actor, atom::wake_v);
    });
  // The others may have agreed on a view before the listener was set.
  self->send(self, atom::wake_v);
}

std::string request_runner_state::description() const {
  const auto& state = *strategy_->state();
  std::ostringstream out;
  out << "functions to run:";
  for (const auto& [name, fn] : functions_.run)
    out << ' ' << name;
  out << "\nfunctions to call:";
  for (const auto& [name, fn] : functions_.call)
    out << ' ' << name;
  out << '\n';
  for (const auto& one : state.observers)
    if (const auto owner = one.lock())
      out << owner->description();
  out << "variables:";
  for (const auto& x : state.variables)
    out << ' ' << to_string(x.dims);
  out << "\nmodels, optimizers and datasets: "
      << std::ranges::count_if(state.observers,
                               [](const auto& x) { return !x.expired(); })
           - (snapshot_ ? 1 : 0)
      << "\nsnapshot: " << (snapshot_ ? "yes" : "no") << '\n';
  return out.str();
}

/// The name is the first line of the owner's description.
std::string request_runner_state::initial_values() const {
  std::string out;
  for (const auto& one : strategy_->state()->observers) {
    const auto owner = one.lock();
    if (!owner || owner == snapshot_)
      continue;
    const auto values = owner->state_tensors(owner->state_text());
    if (values.empty())
      continue;
    sha256 hash;
    for (const auto& x : values) {
      const auto on_cpu = x.to({});
      hash.add({on_cpu.raw(), on_cpu.bytes()});
    }
    const auto name = owner->description();
    out += name.substr(0, name.find('\n'))
           + ", hash of its initial values: " + to_hex(hash.finish()) + '\n';
  }
  return out;
}

// -- requests -----------------------------------------------------------------

void request_runner_state::check_number(std::uint64_t number) {
  if (!strategy_ || number != next_request_)
    throw job_error{ec::protocol, "received step " + std::to_string(number)
                                    + ", expected step "
                                    + std::to_string(next_request_)};
  ++next_request_;
}

/// Calls `fn` for each replica of this worker.
/// @returns the results of the replicas that it hosts afterwards.
tensors
request_runner_state::run_for_replicas(const step_functions::for_replica& fn,
                                       std::uint64_t number,
                                       worker_status& status) {
  const auto& state = strategy_->state();
  const auto results = std::make_shared<typed_step_results<tensors>>(
    state, state->runs, state->replicas);
  const milliseconds timeout(options.arguments.timeout_ms);
  // The lambda shares ownership of the function and the strategy. A stuck
  // replica can still use them after this call and this worker have ended.
  make_step(
    state,
    [fn, results, timeout, channel = options.channel,
     keep = strategy_](replica_context& self) {
      const auto id = self.replica_id();
      results->set(id, fn(self, channel->inputs.wait_for(id, timeout)));
    },
    results);
  last_ = std::make_shared<const kept_results>(kept_results{number, results});
  const auto own =
    typed_step_results<tensors>::take(results, strategy_->local_replica_ids());
  status.result_ids = own.replica_ids();
  tensors flat_results;
  for (const auto& one : own) {
    status.tensor_counts.push_back(static_cast<std::uint32_t>(one.size()));
    flat_results.insert(flat_results.end(), one.begin(), one.end());
  }
  return flat_results;
}

caf::result<worker_status, tensors>
request_runner_state::run(const std::string& function, std::uint64_t number) {
  tensors out;
  last_.reset();
  auto status = guarded([&](worker_status& x) {
    check_number(number);
    if (const auto fn = functions_.run.find(function);
        fn != functions_.run.end()) {
      out = run_for_replicas(fn->second, number, x);
      return;
    }
    const auto fn = functions_.call.find(function);
    if (fn == functions_.call.end())
      throw std::invalid_argument("there is no function \"" + function + "\"");
    // A function that needs no other worker would not notice by itself that
    // the job goes on without this one.
    throw_if_out_of_job();
    const auto scope = strategy_->scope();
    out = fn->second(options.channel->inputs.common());
    throw_if_out_of_job();
    x.tensor_counts = {static_cast<std::uint32_t>(out.size())};
  });
  options.channel->inputs.end();
  return {std::move(status), std::move(out)};
}

caf::result<worker_status, tensors>
request_runner_state::results(std::uint64_t number,
                              const std::vector<std::uint32_t>& replicas) {
  tensors out;
  auto status = guarded([&](worker_status& x) {
    if (!last_ || last_->number != number)
      throw job_error{ec::protocol, "the results of step "
                                      + std::to_string(number)
                                      + " are not known"};
    for (const auto id : replicas) {
      const auto one = last_->results->gathered_value(id, "run");
      x.result_ids.push_back(id);
      x.tensor_counts.push_back(static_cast<std::uint32_t>(one.size()));
      out.insert(out.end(), one.begin(), one.end());
    }
  });
  return {std::move(status), std::move(out)};
}

worker_status request_runner_state::admit(std::uint64_t number,
                                          std::uint64_t incarnation) {
  return guarded([&](worker_status&) {
    check_number(number);
    last_.reset();
    if (!admit_process(strategy_->state(), incarnation))
      throw job_error{ec::stalled, "it did not ask to join in time"};
  });
}

void request_runner_state::enter_pending_view() {
  if (!strategy_)
    return;
  try {
    troupe::enter_pending_view(strategy_->state());
  } catch (const std::exception& e) { // the next request reports it
    log(log_level::warning,
        std::string{"a worker without a request could not follow its job: "}
          + e.what());
  }
}

/// Enters a view that the others have agreed on.
/// @errors throws `job_error` if this worker does not belong to it.
void request_runner_state::throw_if_out_of_job() {
  troupe::enter_pending_view(strategy_->state());
  if (!strategy_->state()->group->belongs_to_job())
    throw job_error{ec::unreachable,
                    "this worker does not belong to its job any more"};
}

bool request_runner_state::stop() {
  release();
  return true;
}

void request_runner_state::release() {
  options.channel->runs.set({});
  last_.reset();
  functions_ = {};
  snapshot_.reset();
  strategy_.reset();
}

// -- behavior -----------------------------------------------------------------

request_runner_actor::behavior_type request_runner(
  request_runner_actor::stateful_pointer<request_runner_state> self,
  const request_runner_options& options) {
  install_exception_handler(self);
  auto& state = self->state;
  state.options = options;
  return {
    [&state](atom::info) { return state.info(); },
    [&state](atom::run, const std::string& function, std::uint64_t number) {
      return state.run(function, number);
    },
    [&state](atom::results, std::uint64_t number,
             const std::vector<std::uint32_t>& replicas) {
      return state.results(number, replicas);
    },
    [&state](atom::admit, std::uint64_t number, std::uint64_t incarnation) {
      return state.admit(number, incarnation);
    },
    [&state](atom::stop) { return state.stop(); },
    [&state](atom::wake) { state.enter_pending_view(); },
  };
}

} // namespace troupe
