#include "troupe/training/parameter_server/registered_closures.hpp"

#include "troupe/actors/coordinator/closure_worker.hpp"
#include "troupe/actors/coordinator/remote_closure_worker.hpp"
#include "troupe/actors/runtime/role_registry.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/training/parameter_server/closure_node.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

namespace troupe {

namespace {

/// Connects to the servers and calls the factory. Blocks.
shared_setup make_setup(runtime& actors,
                        const configured_closures_factory& factory,
                        const client_options& to_servers,
                        const closure_node_arguments& from) {
  auto out = std::make_shared<worker_setup>();
  try {
    parameter_server_options options;
    options.nodes = from.servers;
    options.node_connection = to_servers;
    options.threads = std::clamp(from.threads, 1, 1024);
    options.seed = from.seed;
    options.copies = std::clamp(from.copies, 1U, max_copies);
    options.timeout = std::chrono::milliseconds{
      std::clamp<std::uint64_t>(from.timeout_ms, 1, 24 * 3600 * 1000)};
    const auto servers = std::make_shared<parameter_servers>(
      actors, options, from.job, std::min(from.shards, max_servers));
    const auto made =
      factory(parameter_server_strategy{servers}, from.number, from.arguments);
    for (const auto& [name, fn] : made)
      out->closures[name] = [fn = fn](closure_environment& environment,
                                      const tensors& inputs) {
        closure_context self{environment};
        return fn(self, inputs);
      };
    out->spawn = [servers, number = from.number,
                  interleaved =
                    std::clamp(from.interleaved, 1U, max_interleaved)](
                   const closure_worker_owner_actor& owner) {
      const auto& how = servers->options();
      return servers->system().spawn<caf::detached>(
        closure_worker, closure_worker_config{.number = number,
                                              .owner = owner,
                                              .router = servers->router(),
                                              .servers = servers->job(),
                                              .timeout = how.timeout,
                                              .threads = how.threads,
                                              .interleaved = interleaved,
                                              .seed = how.seed,
                                              .keeps = servers});
    };
  } catch (const std::exception& e) {
    out->problem = e.what();
  } catch (...) {
    out->problem = "the factory of the closures has thrown an exception that "
                   "is no std::exception";
  }
  return out;
}

} // namespace

void register_closures(runtime& actors, const std::string& name,
                       closures_factory factory,
                       const client_options& to_servers) {
  register_closures(
    actors, name,
    configured_closures_factory{
      [factory = std::move(factory)](const parameter_server_strategy& servers,
                                     std::uint32_t worker, const std::string&) {
        return factory(servers, worker);
      }},
    to_servers);
}

void register_closures(runtime& actors, const std::string& name,
                       configured_closures_factory factory,
                       const client_options& to_servers) {
  register_role<remote_closure_worker_actor, closure_node_arguments>(
    actors, closure_role(name),
    [&actors, factory = std::move(factory), to_servers](
      caf::actor_system& system, const closure_node_arguments& from) {
      const auto worker = system.spawn(remote_closure_worker);
      // An actor of its own blocks, because the node must not.
      system.spawn<caf::detached>([&actors, factory, to_servers, from, worker](
                                    caf::event_based_actor*) -> caf::behavior {
        caf::anon_send(worker, make_setup(actors, factory, to_servers, from));
        return {}; // it ends here
      });
      return remote_closure_worker_actor{worker};
    });
}

} // namespace troupe
