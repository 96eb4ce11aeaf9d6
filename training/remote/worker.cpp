#include "troupe/training/remote/worker.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/runtime/role_registry.hpp"
#include "troupe/training/remote/request_runner.hpp"

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace troupe {

namespace {

// -- state --------------------------------------------------------------------

/// The part of a worker that its client sends to. It never blocks, so it hears
/// of the end of the client while a request runs.
struct worker_state {
  static inline const char* name = "worker";

  worker_state() = default;
  worker_state(const worker_state&) = delete;
  worker_state& operator=(const worker_state&) = delete;
  ~worker_state() { end(); }

  /// Ends the runs of the worker, and then the worker.
  void end() {
    if (!runner)
      return;
    channel->runs.end();
    channel->inputs.close();
    caf::anon_send_exit(std::exchange(runner, nullptr),
                        caf::exit_reason::user_shutdown);
  }

  std::shared_ptr<worker_channel> channel;
  request_runner_actor runner;
};

// -- behavior -----------------------------------------------------------------

worker_actor::behavior_type
worker(worker_actor::stateful_pointer<worker_state> self,
       const request_runner_options& options) {
  install_exception_handler(self);
  auto& state = self->state;
  state.channel = options.channel;
  state.runner = self->spawn<caf::detached>(request_runner, options);
  // The node counts a worker as long as it runs a function.
  self->monitor(state.runner);
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->quit(x.reason); });
  self->set_exit_handler([&state](const caf::exit_msg&) { state.end(); });
  const auto protocol_status = [](const std::string& text) {
    worker_status out;
    out.code = ec::protocol;
    out.error_text = text;
    return out;
  };
  return {
    [self](atom::info) {
      return self->delegate(self->state.runner, atom::info_v);
    },
    [self, protocol_status](
      atom::run, const std::string& function, std::uint64_t number,
      const std::vector<std::uint32_t>& replica_ids,
      const std::vector<std::uint32_t>& tensor_counts,
      const tensors& inputs) -> caf::result<worker_status, tensors> {
      const input_list list{replica_ids, tensor_counts, inputs};
      if (auto fault = fault_of(list); !fault.empty())
        return {protocol_status(fault), tensors{}};
      if (!self->state.channel->inputs.begin(number, list))
        return {protocol_status("another request has not ended"), tensors{}};
      return self->delegate(self->state.runner, atom::run_v, function, number);
    },
    [self](atom::inputs, std::uint64_t number,
           const std::vector<std::uint32_t>& replica_ids,
           const std::vector<std::uint32_t>& tensor_counts,
           const tensors& inputs) {
      const input_list list{replica_ids, tensor_counts, inputs};
      return fault_of(list).empty()
             && self->state.channel->inputs.add(number, list);
    },
    [self](atom::results, std::uint64_t number,
           const std::vector<std::uint32_t>& replicas) {
      return self->delegate(self->state.runner, atom::results_v, number,
                            replicas);
    },
    [self](atom::admit, std::uint64_t number, std::uint64_t incarnation) {
      return self->delegate(self->state.runner, atom::admit_v, number,
                            incarnation);
    },
    [self](atom::stop) {
      return self->delegate(self->state.runner, atom::stop_v);
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
      return worker_actor{at.system.spawn(
        worker, request_runner_options{it, at.router, order, make,
                                       std::make_shared<worker_channel>()})};
    });
}

void register_steps(runtime& local_runtime, const std::string& name,
                    step_functions functions) {
  register_steps(local_runtime, name,
                 [all = std::move(functions)](
                   const strategy&, const std::string&) { return all; });
}

} // namespace troupe
