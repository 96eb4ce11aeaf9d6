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

  worker_seat join();
  tensors run(const std::string& what, std::uint64_t number,
              const std::vector<std::uint32_t>& parts, const tensors& inputs,
              std::vector<std::uint32_t>& out);
  void leave();

  runtime* in = nullptr;
  std::weak_ptr<door> at;
  worker_order order;
  steps_factory make;
  std::shared_ptr<const multi_worker_mirrored_strategy> on;
  step_functions table; ///< May refer to `strategy`.
  std::uint64_t next = 0;

private:
  tensors run_all(const step_functions::for_replica& fn,
                  const std::vector<std::uint32_t>& parts,
                  const tensors& inputs, std::vector<std::uint32_t>& out) const;
};

template <class Table>
std::vector<std::string> names_of(const Table& x) {
  std::vector<std::string> out;
  for (const auto& [name, fn] : x)
    out.push_back(name);
  return out;
}

worker_seat worker_state::join() {
  if (on)
    throw std::logic_error("the worker has joined already");
  multi_worker_options how;
  how.devices = order.devices;
  how.threads = order.threads;
  how.communication.bytes_per_pack = order.bytes_per_pack;
  how.communication.timeout = milliseconds(order.timeout_ms);
  how.communication.callback_timeout = milliseconds(order.callback_timeout_ms);
  how.transport = order.transport;
  how.patience = milliseconds(order.patience_ms);
  how.job = order.job;
  how.at = at.lock();
  if (!how.at)
    throw failure{ec::cancelled, "the node is shutting down"};
  net::simple_resolver::options own;
  own.task_type = "worker";
  own.task_id = order.index;
  const net::cluster_spec all{std::map<std::string, net::cluster_spec::list>{
    {"worker", order.addresses}}};
  on = std::make_shared<const multi_worker_mirrored_strategy>(
    *in, net::simple_resolver{all, own}, how);
  const auto scope = on->scope();
  table = make(*on, order.argument);
  return {on->first_local_replica(),  on->local_replicas(),
          on->num_replicas_in_sync(), on->transport(),
          names_of(table.run),        names_of(table.call)};
}

tensors worker_state::run_all(const step_functions::for_replica& fn,
                              const std::vector<std::uint32_t>& parts,
                              const tensors& inputs,
                              std::vector<std::uint32_t>& out) const {
  const auto replicas = on->local_replicas();
  if (parts.size() != 1 && parts.size() != replicas)
    throw failure{ec::protocol, "inputs for " + std::to_string(parts.size())
                                  + " replicas, but the worker has "
                                  + std::to_string(replicas)};
  std::vector<tensors> each;
  auto from = inputs.begin();
  for (const auto count : parts) {
    each.emplace_back(from, from + count);
    from += count;
  }
  each.resize(replicas, each.front());
  // Shares the functions and the strategy: a stuck replica outlives this call
  // and perhaps this worker.
  const auto got =
    on->run([fn, keep = on](replica_context& self,
                            const tensors& mine) { return fn(self, mine); },
            per_replica<tensors>{std::move(each), on->first_local_replica()});
  tensors all;
  for (const auto& one : got) {
    out.push_back(static_cast<std::uint32_t>(one.size()));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

tensors worker_state::run(const std::string& what, std::uint64_t number,
                          const std::vector<std::uint32_t>& parts,
                          const tensors& inputs,
                          std::vector<std::uint32_t>& out) {
  if (!on || number != next)
    throw failure{ec::protocol, "received step " + std::to_string(number)
                                  + ", expected step " + std::to_string(next)};
  if (std::accumulate(parts.begin(), parts.end(), std::uint64_t{0})
      != inputs.size())
    throw failure{ec::protocol,
                  "the tensor counts do not match the number of tensors"};
  ++next;
  if (const auto fn = table.run.find(what); fn != table.run.end())
    return run_all(fn->second, parts, inputs, out);
  const auto fn = table.call.find(what);
  if (fn == table.call.end())
    throw std::invalid_argument("there is no function \"" + what + "\"");
  const auto scope = on->scope();
  auto got = fn->second(inputs);
  out = {static_cast<std::uint32_t>(got.size())};
  return got;
}

void worker_state::leave() {
  table = {};
  on.reset();
}

// -- behavior -----------------------------------------------------------------

/// Calls `fn` and converts an exception to a status. A `job_error` reports the
/// failure of another worker.
template <class F>
worker_news told(F&& fn) {
  worker_news x;
  try {
    fn(x);
    x.done = true;
  } catch (const failure& e) {
    x = {false, e.code == ec::protocol, e.code, e.what(), {}, {}};
  } catch (const std::exception& e) {
    x = {false, true, ec::invalid, e.what(), {}, {}};
  } catch (...) {
    x = {false, true, ec::invalid, "an exception that is no std::exception",
         {},    {}};
  }
  return x;
}

/// The worker blocks in its handlers, so it is detached.
worker_actor::behavior_type
worker(worker_actor::stateful_pointer<worker_state> self, runtime* in,
       const std::weak_ptr<door>& at, const worker_order& order,
       const steps_factory& make) {
  keep_last_words(self);
  auto& state = self->state;
  state.in = in;
  state.at = at;
  state.order = order;
  state.make = make;
  return {[&state](atom::who) {
            return told([&](worker_news& x) { x.seat = state.join(); });
          },
          [&state](atom::run, const std::string& what, std::uint64_t number,
                   const std::vector<std::uint32_t>& parts,
                   const tensors& inputs) -> caf::result<worker_news, tensors> {
            tensors out;
            auto news = told([&](worker_news& x) {
              out = state.run(what, number, parts, inputs, x.parts);
            });
            return {std::move(news), std::move(out)};
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

void register_steps(runtime& in, const std::string& name, steps_factory make) {
  register_role<worker_actor, worker_order>(
    in, role_of_steps(name),
    [it = &in, make = std::move(make)](const role_place& at,
                                       const worker_order& order) {
      return worker_actor{
        at.system.spawn<caf::detached>(worker, it, at.at, order, make)};
    });
}

void register_steps(runtime& in, const std::string& name, step_functions all) {
  register_steps(in, name,
                 [all = std::move(all)](const strategy&, const std::string&) {
                   return all;
                 });
}

} // namespace troupe
