#include "troupe/training/remote/worker.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/runtime/role_registry.hpp"
#include "troupe/net/cluster/simple_resolver.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/training/strategies/multi_worker.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <numeric>

namespace troupe {

namespace {

using std::chrono::milliseconds;

// -- state --------------------------------------------------------------------

struct worker_state {
  static inline const char* name = "worker";

  worker_info join();
  tensors run(const std::string& function, std::uint64_t number,
              const std::vector<std::uint32_t>& tensor_counts,
              const tensors& inputs, std::vector<std::uint32_t>& result_counts);
  void leave();

  runtime* local_runtime = nullptr;
  std::weak_ptr<service_router> router;
  worker_arguments arguments;
  steps_factory factory;
  std::shared_ptr<const multi_worker_mirrored_strategy> strategy;
  /// The functions may refer to `strategy`, so they are destroyed before it.
  step_functions functions;
  std::uint64_t next_request = 0;

private:
  tensors run_all(const step_functions::for_replica& fn,
                  const std::vector<std::uint32_t>& tensor_counts,
                  const tensors& inputs,
                  std::vector<std::uint32_t>& result_counts) const;
};

template <class Table>
std::vector<std::string> names_of(const Table& x) {
  std::vector<std::string> out;
  for (const auto& [name, fn] : x)
    out.push_back(name);
  return out;
}

worker_info worker_state::join() {
  if (strategy)
    throw std::logic_error("the worker has joined already");
  multi_worker_options options;
  options.devices = arguments.devices;
  options.threads = arguments.threads;
  options.communication.bytes_per_pack = arguments.bytes_per_pack;
  options.communication.timeout = milliseconds(arguments.timeout_ms);
  options.communication.callback_timeout =
    milliseconds(arguments.callback_timeout_ms);
  options.transport = arguments.transport;
  options.start_timeout = milliseconds(arguments.start_timeout_ms);
  options.job = arguments.job;
  options.router = router.lock();
  if (!options.router)
    throw job_error{ec::cancelled, "the node is shutting down"};
  net::simple_resolver::options resolver_options;
  resolver_options.task_type = "worker";
  resolver_options.task_id = arguments.index;
  const net::cluster_spec spec{std::map<std::string, net::cluster_spec::list>{
    {"worker", arguments.addresses}}};
  strategy = std::make_shared<const multi_worker_mirrored_strategy>(
    *local_runtime, net::simple_resolver{spec, resolver_options}, options);
  const auto scope = strategy->scope();
  functions = factory(*strategy, arguments.argument);
  return {strategy->local_replica_ids(), strategy->num_replicas_in_sync(),
          strategy->transport(), names_of(functions.run),
          names_of(functions.call)};
}

tensors worker_state::run_all(const step_functions::for_replica& fn,
                              const std::vector<std::uint32_t>& tensor_counts,
                              const tensors& inputs,
                              std::vector<std::uint32_t>& result_counts) const {
  const auto replicas = strategy->local_replica_ids().size();
  if (tensor_counts.size() != 1 && tensor_counts.size() != replicas)
    throw job_error{ec::protocol, "inputs for "
                                    + std::to_string(tensor_counts.size())
                                    + " replicas, but the worker has "
                                    + std::to_string(replicas)};
  std::vector<tensors> replica_inputs;
  auto next_input = inputs.begin();
  for (const auto count : tensor_counts) {
    replica_inputs.emplace_back(next_input, next_input + count);
    next_input += count;
  }
  replica_inputs.resize(replicas, replica_inputs.front());
  // The lambda shares ownership of the function and the strategy, because a
  // stuck replica can still use them after this call and this worker have
  // ended.
  const auto results = strategy->run(
    [fn, keep = strategy](replica_context& self, const tensors& mine) {
      return fn(self, mine);
    },
    per_replica<tensors>{std::move(replica_inputs),
                         strategy->local_replica_ids()});
  tensors flat_results;
  for (const auto& one : results) {
    result_counts.push_back(static_cast<std::uint32_t>(one.size()));
    flat_results.insert(flat_results.end(), one.begin(), one.end());
  }
  return flat_results;
}

tensors worker_state::run(const std::string& function, std::uint64_t number,
                          const std::vector<std::uint32_t>& tensor_counts,
                          const tensors& inputs,
                          std::vector<std::uint32_t>& result_counts) {
  if (!strategy || number != next_request)
    throw job_error{ec::protocol, "received step " + std::to_string(number)
                                    + ", expected step "
                                    + std::to_string(next_request)};
  if (std::accumulate(tensor_counts.begin(), tensor_counts.end(),
                      std::uint64_t{0})
      != inputs.size())
    throw job_error{ec::protocol,
                    "the tensor counts do not match the number of tensors"};
  ++next_request;
  if (const auto fn = functions.run.find(function); fn != functions.run.end())
    return run_all(fn->second, tensor_counts, inputs, result_counts);
  const auto fn = functions.call.find(function);
  if (fn == functions.call.end())
    throw std::invalid_argument("there is no function \"" + function + "\"");
  const auto scope = strategy->scope();
  auto results = fn->second(inputs);
  result_counts = {static_cast<std::uint32_t>(results.size())};
  return results;
}

void worker_state::leave() {
  functions = {};
  strategy.reset();
}

// -- behavior -----------------------------------------------------------------

/// Calls `fn` and converts an exception to a status. If the exception is a
/// `job_error` with another code than `protocol`, the status says that another
/// worker failed. For any other exception, the status says that this worker
/// failed.
template <class F>
worker_status run_guarded(F&& fn) {
  worker_status status;
  try {
    fn(status);
    status.done = true;
  } catch (const job_error& e) {
    status = {false, e.code == ec::protocol, e.code, e.what(), {}, {}};
  } catch (const std::exception& e) {
    status = {false, true, ec::invalid, e.what(), {}, {}};
  } catch (...) {
    status = {false,       true,
              ec::invalid, "an exception that is no std::exception",
              {},          {}};
  }
  return status;
}

/// Behavior of a worker. Its handlers block, so the actor is detached.
worker_actor::behavior_type
worker(worker_actor::stateful_pointer<worker_state> self,
       runtime* local_runtime, const std::weak_ptr<service_router>& router,
       const worker_arguments& arguments, const steps_factory& factory) {
  install_exception_handler(self);
  auto& state = self->state;
  state.local_runtime = local_runtime;
  state.router = router;
  state.arguments = arguments;
  state.factory = factory;
  return {
    [&state](atom::info) {
      return run_guarded([&](worker_status& x) { x.info = state.join(); });
    },
    [&state](atom::run, const std::string& function, std::uint64_t number,
             const std::vector<std::uint32_t>& tensor_counts,
             const tensors& inputs) -> caf::result<worker_status, tensors> {
      tensors out;
      auto status = run_guarded([&](worker_status& x) {
        out =
          state.run(function, number, tensor_counts, inputs, x.tensor_counts);
      });
      return {std::move(status), std::move(out)};
    },
    [&state](atom::stop) {
      state.leave();
      return true;
    }};
}

} // namespace

std::string role_of_steps(const std::string& name) {
  return "steps/" + name;
}

void register_steps(runtime& local_runtime, const std::string& name,
                    steps_factory factory) {
  register_role<worker_actor, worker_arguments>(
    local_runtime, role_of_steps(name),
    [it = &local_runtime, make = std::move(factory)](
      const role_context& at, const worker_arguments& order) {
      return worker_actor{
        at.system.spawn<caf::detached>(worker, it, at.router, order, make)};
    });
}

void register_steps(runtime& local_runtime, const std::string& name,
                    step_functions functions) {
  register_steps(local_runtime, name,
                 [all = std::move(functions)](
                   const strategy&, const std::string&) { return all; });
}

} // namespace troupe
