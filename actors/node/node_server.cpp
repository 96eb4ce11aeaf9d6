#include "troupe/actors/node/node_server.hpp"

#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/node/node.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/session/service_router.hpp"

#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <condition_variable>

namespace troupe {

namespace {

net::endpoint_options endpoint_of(const node_server_options& x) {
  net::endpoint_options to;
  to.listen = net::parse_address(x.listen);
  to.last_port = x.last_port;
  if (!x.advertise.empty())
    to.advertised = net::parse_address(x.advertise);
  to.credentials =
    x.credentials ? *x.credentials : net::credentials_from_environment();
  to.heartbeat = x.heartbeat;
  to.suspect = x.suspect;
  to.patience = x.patience;
  to.log = x.log;
  return to;
}

struct stop_note {
  std::mutex lock;
  std::condition_variable news;
  bool said = false;
};

} // namespace

struct node_server::impl {
  impl(runtime& in, const node_server_options& x)
    : told{std::make_shared<stop_note>()},
      entrance{std::make_shared<door>(endpoint_of(x))},
      it{in.system().spawn(node, settings_of(in, x))},
      served{entrance->serve(
        {}, "node",
        {[](const net::hello&) { return net::verdict{}; },
         [to = it](const net::hello&, net::arrived&& x) {
           if (auto* one = std::get_if<std::shared_ptr<net::connection>>(&x))
             caf::anon_send(to, guest_ref{std::move(*one)});
         }})},
      address{to_string(entrance->endpoint().reachable_at())} {
    forget_logger();
  }

  ~impl() {
    served.reset();
    caf::anon_send_exit(it, caf::exit_reason::user_shutdown);
  }

  node_settings settings_of(runtime& in, const node_server_options& x) const {
    node_settings to;
    to.name = x.name;
    to.incarnation = in.incarnation();
    to.roles = in.roles();
    to.at = entrance;
    to.guests = x.guests;
    to.roles_per_guest = x.roles_per_guest;
    to.stopped = [told = told] {
      const std::lock_guard hold{told->lock};
      told->said = true;
      told->news.notify_all();
    };
    return to;
  }

  std::shared_ptr<stop_note> told;
  std::shared_ptr<door> entrance;
  node_inside it;
  std::unique_ptr<door::guest> served;
  std::string address;
};

node_server::node_server(runtime& in, const node_server_options& options)
  : impl_{std::make_unique<impl>(in, options)} {}

node_server::~node_server() = default;

const std::string& node_server::address() const {
  return impl_->address;
}

bool node_server::wait_for_stop(std::chrono::milliseconds patience) {
  std::unique_lock hold{impl_->told->lock};
  return impl_->told->news.wait_for(hold, patience,
                                    [this] { return impl_->told->said; });
}

} // namespace troupe
