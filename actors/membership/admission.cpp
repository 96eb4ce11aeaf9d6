#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/membership/status_service.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/base/log_rate_limiter.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/tensors/kernels.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <algorithm>

// Admission: decides which processes the leader admits and which streams a
// process accepts, and makes the hello that a process sends.

namespace troupe {

using namespace std::chrono_literals;

void cluster::impl::open_router() {
  router_ = options.router;
  if (router_)
    return;
  const auto& mine = options.addresses[options.task];
  net::endpoint_options endpoint_config;
  endpoint_config.listen = options.listen ? *options.listen : mine;
  if (mine.port != 0)
    endpoint_config.advertised = mine;
  endpoint_config.credentials = options.credentials;
  endpoint_config.heartbeat_interval = options.heartbeat_interval;
  endpoint_config.heartbeat_timeout = options.heartbeat_timeout;
  endpoint_config.handshake_timeout =
    std::min<std::chrono::milliseconds>(options.shutdown_timeout, 5s);
  endpoint_config.log = options.log;
  endpoint_config.address_in_use_hint =
    "does another process say that it is " + own_name() + "?";
  router_ = std::make_shared<service_router>(endpoint_config);
}

rendezvous::join_request cluster::impl::own_join_request() const {
  const auto& own_address = router_->endpoint().advertised_address();
  return {options.task,
          incarnation_,
          own_address.host,
          own_address.port,
          {"wire " + std::to_string(net::wire_version),
           std::string{kernel_level()},
           static_cast<std::uint32_t>(options.threads), options.replicas,
           options.shared_config}};
}

net::hello cluster::impl::make_hello(const std::string& purpose) const {
  const auto self = own_join_request();
  return {options.job, own_name(), incarnation_, purpose,
          net::encode(self.task, self.incarnation, self.host, self.port,
                      self.config)};
}

// -- accepted connections -----------------------------------------------------

void cluster::impl::register_services() {
  if (options.task == 0)
    peers_->admission_state.emplace(options.names, own_join_request());
  if (options.task == 0) // first: members join before they open streams
    registrations_.push_back(router_->serve(
      options.job, "control",
      {[this](const net::hello& hello) { return admit(hello); },
       [peers = peers_](const net::hello& hello,
                        net::accepted_connection&& accepted) {
         rendezvous::join_request request;
         auto* connection =
           std::get_if<std::shared_ptr<net::connection>>(&accepted);
         if (connection
             && !net::decode(hello.payload, request.task, request.incarnation,
                             request.host, request.port, request.config))
           attach_peer(peers, request.task, request.incarnation,
                       std::move(*connection));
       },
       [peers = peers_](const net::hello& hello) {
         rendezvous::join_request request;
         if (net::decode(hello.payload, request.task, request.incarnation,
                         request.host, request.port, request.config))
           return;
         const std::lock_guard hold{peers->lock};
         peers->admission_state->on_lost(request.task, request.incarnation);
         peers->changed.notify_all();
       }}));
  for (const auto* purpose : lane_purposes)
    registrations_.push_back(router_->serve(
      options.job, purpose,
      {[this](const net::hello& hello) { return admit_stream(hello); },
       [peers = peers_](const net::hello& hello,
                        net::accepted_connection&& accepted) {
         rendezvous::join_request request;
         auto* stream = std::get_if<std::unique_ptr<net::stream>>(&accepted);
         if (!stream
             || net::decode(hello.payload, request.task, request.incarnation,
                            request.host, request.port, request.config))
           return;
         const std::lock_guard hold{peers->lock};
         peers->streams[{request.task, request.incarnation, hello.purpose}] =
           std::move(*stream);
         peers->changed.notify_all();
       }}));
  try {
    registrations_.push_back(router_->serve({}, "status", status_handler()));
  } catch (const std::logic_error&) {
    // Another job of this process already answers the status queries that
    // arrive at this endpoint. This job then answers none.
  }
}

/// Returns the handler of status queries. The handler of the leader answers
/// them. The handler of any other process rejects them and names the leader.
service_router::service_handler cluster::impl::status_handler() {
  if (options.task > 0)
    return {[why = own_name() + " does not lead; ask " + options.names[0]
                   + " at "
                   + to_string(options.addresses[0])](const net::hello&) {
              return net::hello_response{false, why, {}, {}};
            },
            [](const net::hello&, net::accepted_connection&&) {}};
  const auto service = spawn_status_service(
    local_runtime.system(), {peers_, options.job, options.names, incarnation_});
  release_caf_logger();
  status_service_ = caf::actor_cast<caf::actor>(service);
  return {[](const net::hello&) { return net::hello_response{}; },
          [service](const net::hello&, net::accepted_connection&& accepted) {
            if (auto* connection =
                  std::get_if<std::shared_ptr<net::connection>>(&accepted))
              caf::anon_send(service, client_ref{std::move(*connection)});
          }};
}

net::hello_response cluster::impl::admit(const net::hello& hello) {
  net::hello_response response;
  response.responder = make_hello("control");
  rendezvous::join_request request;
  if (const auto fault =
        net::decode(hello.payload, request.task, request.incarnation,
                    request.host, request.port, request.config)) {
    response = {false, "the hello is malformed: " + to_string(*fault), {}, {}};
    return response;
  }
  const std::lock_guard hold{peers_->lock};
  const auto decision = peers_->admission_state->on(request);
  if (const auto* rejection = std::get_if<rendezvous::rejected>(&decision)) {
    response.accepted = false;
    response.reason = rejection->reason;
    const auto reason = net::printable(rejection->reason);
    if (request.task < processes())
      peers_->rejections[request.task] = reason;
    if (options.log)
      options.log(net::severity::warning,
                  own_name() + " rejected a process: " + reason);
  }
  return response;
}

net::hello_response cluster::impl::admit_stream(const net::hello& hello) {
  rendezvous::join_request request;
  if (net::decode(hello.payload, request.task, request.incarnation,
                  request.host, request.port, request.config)
      || request.task <= options.task || request.task >= processes())
    return {false,
            "only processes with a higher task number may open streams to "
              + own_name(),
            {},
            {}};
  const std::lock_guard hold{peers_->lock};
  if (peers_->streams.size() > 4 * lane_purposes.size() * options.names.size())
    return {false, own_name() + " has too many unused streams", {}, {}};
  if (peers_->view
      && (request.task >= peers_->view->members.size()
          || peers_->view->members[request.task].incarnation
               != request.incarnation))
    return {false,
            "another process is the admitted " + options.names[request.task],
            {},
            {}};
  return {};
}

} // namespace troupe
