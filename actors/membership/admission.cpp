#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/actors/membership/peers/reconnect_admission.hpp"
#include "troupe/actors/membership/roles/rejection_text.hpp"
#include "troupe/actors/membership/status_service.hpp"
#include "troupe/actors/membership/stream_admission.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tensors/base/kernels.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <algorithm>

// Services of a process of a job: which connections and streams it accepts, and
// the hello that it sends.

namespace troupe {

using namespace std::chrono_literals;

void cluster::impl::open_router() {
  router_ = options.router;
  if (router_)
    return;
  net::endpoint_options endpoint_config;
  endpoint_config.listen = options.listen;
  if (options.any_task) {
    if (!options.listen)
      endpoint_config.listen = net::address{"127.0.0.1", 0};
  } else {
    const auto& mine = options.addresses[options.task];
    if (!options.listen)
      endpoint_config.listen = mine;
    if (mine.port != 0)
      endpoint_config.advertised = mine;
  }
  endpoint_config.connection = options.connection;
  endpoint_config.connection.handshake_timeout =
    std::min(options.connection.handshake_timeout, options.shutdown_timeout);
  endpoint_config.log = options.log;
  endpoint_config.address_in_use_hint =
    options.any_task
      ? "give another port, or 0 for a free one"
      : "does another process say that it is " + own_name() + "?";
  router_ = std::make_shared<service_router>(endpoint_config);
}

membership::join_request cluster::impl::own_join_request() const {
  const auto& own_address = router_->endpoint().advertised_address();
  return {options.task,
          incarnation_,
          own_address.host,
          own_address.port,
          options.replicas,
          {"wire " + std::to_string(net::wire_version),
           std::string{kernel_level()},
           static_cast<std::uint32_t>(options.threads), processes(),
           options.shared_config}};
}

net::hello cluster::impl::make_hello(const std::string& purpose) const {
  return make_join_hello(options.job, own_name(), purpose, own_join_request(),
                         net::own_process_identity());
}

// -- accepted connections -----------------------------------------------------

void cluster::impl::register_stream_services() {
  for (const auto* purpose : lane_purposes)
    registrations_.push_back(router_->serve(
      options.job, purpose,
      {[this](const net::hello& hello) { return admit_stream(hello); },
       [peers = peers_](const net::hello& hello,
                        net::accepted_connection&& accepted) {
         membership::join_request request;
         std::uint64_t view_id = 0;
         auto* stream = std::get_if<std::unique_ptr<net::stream>>(&accepted);
         if (stream && !read_stream_hello(hello, request, view_id))
           peers->update([&] {
             peers->streams.add(
               {view_id, request.task, request.incarnation, hello.purpose},
               std::move(*stream));
           });
       }}));
}

/// The leader accepts processes that join, and every other process those
/// participants that have a higher task.
void cluster::impl::register_admission() {
  registrations_.push_back(router_->serve(
    options.job, options.task == 0 ? "control" : "peer",
    {[this](const net::hello& hello) { return admit(hello); },
     [actor = membership_](const net::hello& hello,
                           net::accepted_connection&& accepted) {
       membership::join_request request;
       auto* connection =
         std::get_if<std::shared_ptr<net::connection>>(&accepted);
       if (connection && !read_join_hello(hello, request))
         caf::anon_send(
           actor, membership_event::accepted{std::move(*connection), request});
     }}));
  registrations_.push_back(router_->serve(
    options.job, "join",
    {[this](const net::hello& hello) { return admit(hello); },
     [actor = membership_](const net::hello& hello,
                           net::accepted_connection&& accepted) {
       membership::join_request request;
       auto* connection =
         std::get_if<std::shared_ptr<net::connection>>(&accepted);
       if (connection && !read_join_hello(hello, request))
         caf::anon_send(actor, membership_event::candidate_accepted{
                                 std::move(*connection), request});
     }}));
  registrations_.push_back(router_->serve(
    options.job, "reconnect",
    {[this](const net::hello& hello) { return admit_again(hello); },
     [actor = membership_](const net::hello& hello,
                           net::accepted_connection&& accepted) {
       reconnect_request request;
       auto* connection =
         std::get_if<std::shared_ptr<net::connection>>(&accepted);
       if (connection && !read_reconnect_hello(hello, request))
         caf::anon_send(actor,
                        membership_event::accepted_again{
                          std::move(*connection),
                          {request.dialer.task, request.dialer.incarnation}});
     }}));
  const auto status = status_handler();
  registrations_.push_back(router_->serve(
    options.job, "vacancies",
    {[this](const net::hello& hello) { return admit_spare(hello); },
     status.accepted}));
  try {
    registrations_.push_back(router_->serve({}, "status", status));
  } catch (const std::logic_error&) {
    // Another job of this process already answers the status queries that
    // arrive at this endpoint. This job then answers none.
  }
}

/// Returns the handler of status queries. Every process answers them: it asks
/// the chief, which may be in another process.
service_router::service_handler cluster::impl::status_handler() {
  const auto service = spawn_status_service(local_runtime.system(), overview());
  release_caf_logger();
  status_service_ = caf::actor_cast<caf::actor>(service);
  return {[](const net::hello&) { return net::hello_response{}; },
          [service](const net::hello&, net::accepted_connection&& accepted) {
            if (auto* connection =
                  std::get_if<std::shared_ptr<net::connection>>(&accepted))
              caf::anon_send(service, client_ref{std::move(*connection)});
          }};
}

/// Accepts the connection of a process of the job. The membership actor decides
/// whether it belongs to the job.
net::hello_response cluster::impl::admit(const net::hello& hello) {
  membership::join_request request;
  if (const auto fault = read_join_hello(hello, request))
    return {false, "the hello is malformed: " + to_string(*fault), {}, {}};
  net::hello_response response;
  response.responder = make_hello(hello.purpose);
  return response;
}

/// Accepts the connection of a spare that has the configuration of the job. So
/// any other spare learns at its start that it cannot join.
net::hello_response cluster::impl::admit_spare(const net::hello& hello) {
  membership::join_request request;
  if (const auto fault = read_join_hello(hello, request))
    return {false, "the hello is malformed: " + to_string(*fault), {}, {}};
  net::hello_response response;
  response.responder = make_hello(hello.purpose);
  auto names = options.names;
  names.emplace_back("the spare");
  const auto why = membership::difference(processes(), request.config,
                                          own_join_request().config);
  if (why) {
    response.accepted = false;
    response.reason = describe(*why, names);
  }
  return response;
}

/// Accepts the connection of a member of the job whose earlier connection was
/// cut.
net::hello_response cluster::impl::admit_again(const net::hello& hello) {
  reconnect_request request;
  if (const auto fault = read_reconnect_hello(hello, request))
    return {false, "the hello is malformed: " + to_string(*fault), {}, {}};
  const std::lock_guard hold{peers_->lock};
  auto refusal = reconnect_refusal(peers_->view, peers_->started, request,
                                   options.names, options.task, incarnation_);
  const bool accepted = refusal.empty();
  return {accepted, std::move(refusal), {}, make_hello(hello.purpose)};
}

net::hello_response cluster::impl::admit_stream(const net::hello& hello) {
  membership::join_request request;
  std::uint64_t view_id = 0;
  if (read_stream_hello(hello, request, view_id) || request.task <= options.task
      || request.task >= processes())
    return {false,
            "only processes with a higher task number may open streams to "
              + own_name(),
            {},
            {}};
  const std::lock_guard hold{peers_->lock};
  if (peers_->streams.size() > 4 * lane_purposes.size() * options.names.size())
    return {false, own_name() + " has too many unused streams", {}, {}};
  auto refusal =
    stream_refusal(peers_->view, request, view_id, options.names, options.task);
  if (!refusal.empty())
    return {false, std::move(refusal), {}, {}};
  return {};
}

} // namespace troupe
