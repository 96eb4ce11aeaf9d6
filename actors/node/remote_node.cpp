#include "troupe/actors/node/remote_node.hpp"

#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/protocol/type_ids.hpp"

#include <caf/scoped_actor.hpp>

namespace troupe {

struct remote_node::impl {
  impl(runtime& in, const std::string& where, const remote_options& options)
    : where{where},
      options{options},
      system{in.system()},
      phone{endpoint_for(options)},
      line{call(*phone, where, {{}, options.name, in.incarnation(), "node", {}},
                options.patience)},
      desk{in.system().spawn(proxy<node_actor>, line->open(desk_channel),
                             proxy_options{.patience = options.patience})} {
    forget_logger();
  }

  ~impl() { line->close("the client closed the node's handle"); }

  std::string where;
  remote_options options;
  caf::actor_system& system;
  std::unique_ptr<net::endpoint> phone;
  std::shared_ptr<net::connection> line;
  node_actor desk;
};

remote_node::remote_node(runtime& in, const std::string& where,
                         const remote_options& options)
  : impl_{std::make_unique<impl>(in, where, options)} {}

remote_node::~remote_node() = default;

std::shared_ptr<net::link> remote_node::order(const spawn_order& x) {
  const auto what = "node " + impl_->where + ": spawning \"" + x.role + "\"";
  const auto channel = ask<std::uint32_t>(
    system(), what, impl_->desk, impl_->options.patience, atom::spawn_v, x);
  try {
    return impl_->line->open(channel);
  } catch (const std::logic_error& e) { // the node broke the protocol
    throw failure{ec::protocol,
                  what + ": the response is invalid: " + e.what()};
  }
}

node_info remote_node::who() {
  return ask<node_info>(system(), "node " + impl_->where + ": info",
                        impl_->desk, impl_->options.patience, atom::who_v);
}

void remote_node::stop() {
  caf::anon_send(impl_->desk, atom::stop_v);
}

caf::actor_system& remote_node::system() {
  return impl_->system;
}

proxy_options remote_node::options_for_roles() const {
  return {.patience = impl_->options.answers, .window = impl_->options.window};
}

} // namespace troupe
