#include "troupe/actors/node/remote_node.hpp"

#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/protocol/type_ids.hpp"

#include <caf/scoped_actor.hpp>

namespace troupe {

namespace {

constexpr auto own_close_reason = "the client closed the node's handle";

} // namespace

struct remote_node::impl {
  impl(runtime& local_runtime, const std::string& node_address,
       const client_options& options)
    : address{node_address},
      options{options},
      system{local_runtime.system()},
      endpoint{make_client_endpoint(options)},
      connection{
        connect(*endpoint, node_address,
                {{}, options.name, local_runtime.incarnation(), "node", {}},
                options.connect_timeout)},
      node_proxy{local_runtime.system().spawn(
        proxy<node_actor>, connection->open(root_channel),
        proxy_options{.request_timeout = options.connect_timeout,
                      .target = "node " + node_address,
                      .process = "node " + node_address,
                      .own_close_reason = own_close_reason})} {
    release_caf_logger();
  }

  ~impl() { connection->close(own_close_reason); }

  std::string address;
  client_options options;
  caf::actor_system& system;
  std::unique_ptr<net::endpoint> endpoint;
  std::shared_ptr<net::connection> connection;
  node_actor node_proxy;
};

remote_node::remote_node(runtime& local_runtime, const std::string& address,
                         const client_options& options)
  : impl_{std::make_unique<impl>(local_runtime, address, options)} {}

remote_node::~remote_node() = default;

std::shared_ptr<net::channel>
remote_node::request_spawn(const spawn_request& request) {
  const auto operation =
    "node " + impl_->address + ": spawning \"" + request.role + "\"";
  const auto channel =
    ask<std::uint32_t>(system(), operation, impl_->node_proxy,
                       impl_->options.connect_timeout, atom::spawn_v, request);
  try {
    return impl_->connection->open(channel);
  } catch (const std::logic_error& e) { // the node broke the protocol
    throw job_error{ec::protocol,
                    operation + ": the response is invalid: " + e.what()};
  }
}

node_info remote_node::info() {
  return ask<node_info>(system(), "node " + impl_->address + ": info",
                        impl_->node_proxy, impl_->options.connect_timeout,
                        atom::info_v);
}

void remote_node::stop() {
  caf::anon_send(impl_->node_proxy, atom::stop_v);
}

caf::actor_system& remote_node::system() {
  return impl_->system;
}

proxy_options remote_node::role_options(const std::string& role) const {
  return {.request_timeout = impl_->options.request_timeout,
          .window = impl_->options.window,
          .target = "role \"" + role + "\" of node " + impl_->address,
          .process = "node " + impl_->address,
          .own_close_reason = own_close_reason};
}

} // namespace troupe
