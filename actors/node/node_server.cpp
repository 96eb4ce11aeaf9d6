#include "troupe/actors/node/node_server.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/actors/core/shared_arena.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/node/lane_acceptor.hpp"
#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/spare_announcer.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/base/notification.hpp"
#include "troupe/net/session/service_router.hpp"

#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>

namespace troupe {

namespace {

net::endpoint_options
make_endpoint_options(const node_server_options& options) {
  net::endpoint_options endpoint_config;
  endpoint_config.listen = net::parse_address(options.listen);
  endpoint_config.last_port = options.last_port;
  if (!options.advertise.empty())
    endpoint_config.advertised = net::parse_address(options.advertise);
  endpoint_config.connection = options.connection;
  endpoint_config.log = options.log ? options.log : log_of_connections;
  return endpoint_config;
}

void check(const node_server_options& options) {
  using namespace std::chrono_literals;
  constexpr auto max_join_timeout = 7 * 24h;
  if (options.join_timeout < 1ms || options.join_timeout > max_join_timeout)
    throw std::invalid_argument("join_timeout is "
                                + std::to_string(options.join_timeout.count())
                                + " ms: give 1 ms to 7 days");
}

/// Why the node could not join a client. Any thread may call the functions.
class join_failure {
public:
  void set(const job_error& error) {
    const std::lock_guard hold{lock_};
    error_ = error;
  }
  void throw_if_set() const {
    const std::lock_guard hold{lock_};
    if (error_)
      throw job_error{*error_};
  }

private:
  mutable std::mutex lock_; // guards `error_`
  std::optional<job_error> error_;
};

} // namespace

struct node_server::impl {
  impl(runtime& local_runtime, const node_server_options& options)
    : stop_requested{std::make_shared<net::notification>()},
      router{std::make_shared<service_router>(make_endpoint_options(options))},
      node_handle{local_runtime.system().spawn(
        node, make_settings(local_runtime, options))},
      lanes{
        std::make_shared<lane_acceptor>(lane_config(local_runtime, options))},
      registration{router->serve(
        {}, "node",
        {[incarnation = local_runtime.incarnation()](const net::hello& peer) {
           // The payload tells the client that its connection gets a lane.
           net::hello_response response;
           response.responder.incarnation = incarnation;
           response.responder.payload = peer.payload;
           return response;
         },
         [lanes = lanes, target = node_handle](
           const net::hello&, net::accepted_connection&& accepted) {
           if (auto* connection =
                 std::get_if<std::shared_ptr<net::connection>>(&accepted))
             serve(target, *lanes, *connection);
         }})},
      lane_registration{router->serve(
        {}, tensors_purpose,
        {[lanes = lanes](const net::hello& peer) {
           return lanes->expects(peer)
                    ? net::hello_response{}
                    : net::hello_response{
                      .accepted = false,
                      .reason = "no connection waits for this lane"};
         },
         [lanes = lanes](const net::hello& peer,
                         net::accepted_connection&& accepted) {
           if (auto* stream =
                 std::get_if<std::unique_ptr<net::stream>>(&accepted))
             lanes->accept(peer, std::move(*stream));
         }})},
      address{to_string(router->endpoint().advertised_address())} {
    router->open();
    release_caf_logger();
    if (!options.join.empty())
      announcer = std::make_unique<spare_announcer>(
        router, announcer_config(local_runtime, options));
  }

  ~impl() {
    announcer.reset();
    lane_registration.reset();
    registration.reset();
    caf::anon_send_exit(node_handle, caf::exit_reason::user_shutdown);
  }

  static void serve(const node_internal_actor& target, lane_acceptor& lanes,
                    const std::shared_ptr<net::connection>& connection) {
    try {
      caf::anon_send(target, client_ref{connection, lanes.open(connection)});
    } catch (const std::exception& e) {
      connection->close(e.what());
    }
  }

  lane_acceptor::options lane_config(const runtime& local_runtime,
                                     const node_server_options& options) const {
    lane_acceptor::options config;
    config.incarnation = local_runtime.incarnation();
    // Lanes end after their connections, so for a moment there can be more.
    config.max_lanes = 2 * options.max_clients;
    config.thread.lane.stream_transport =
      router->endpoint().uses_tls() ? "tls" : "tcp";
    config.thread.lane.arena = shared_arena();
    config.thread.lane.handshake_timeout = options.connection.handshake_timeout;
    config.thread.log = options.log ? options.log : log_of_connections;
    return config;
  }

  spare_announcer::options
  announcer_config(runtime& local_runtime,
                   const node_server_options& options) const {
    spare_announcer::options config;
    config.client = options.join;
    config.join_timeout = options.join_timeout;
    config.attempt_timeout = options.connection.handshake_timeout;
    config.name = options.name;
    config.incarnation = local_runtime.incarnation();
    std::random_device random;
    config.seed = std::uint64_t{random()} << 32 | random();
    config.describe = [at = address, roles = local_runtime.roles()] {
      return spare_description{at, roles->names()};
    };
    config.on_event = options.on_join_event;
    if (!config.on_event)
      config.on_event = [](const std::string& text) {
        log(log_level::info, text);
      };
    config.on_failure = [failure = failure,
                         stop = stop_requested](const job_error& error) {
      failure->set(error);
      stop->notify();
    };
    return config;
  }

  node_settings make_settings(runtime& local_runtime,
                              const node_server_options& options) const {
    node_settings settings;
    settings.name = options.name;
    settings.incarnation = local_runtime.incarnation();
    settings.roles = local_runtime.roles();
    settings.router = router;
    settings.max_clients = options.max_clients;
    settings.max_roles_per_client = options.max_roles_per_client;
    settings.on_stop = [stop = stop_requested] { stop->notify(); };
    return settings;
  }

  std::shared_ptr<net::notification> stop_requested;
  std::shared_ptr<service_router> router;
  node_internal_actor node_handle;
  std::shared_ptr<lane_acceptor> lanes;
  std::unique_ptr<service_router::registration> registration;
  std::unique_ptr<service_router::registration> lane_registration;
  std::string address;
  const std::shared_ptr<join_failure> failure =
    std::make_shared<join_failure>();
  /// Announces the node to the client of `join`. Null: there is none.
  std::unique_ptr<spare_announcer> announcer;
};

node_server::node_server(runtime& local_runtime,
                         const node_server_options& options)
  : impl_{(check(options), std::make_unique<impl>(local_runtime, options))} {}

node_server::~node_server() = default;

const std::string& node_server::address() const {
  return impl_->address;
}

bool node_server::wait_for_stop(std::chrono::milliseconds timeout) {
  const auto stops = impl_->stop_requested->wait_for(timeout);
  impl_->failure->throw_if_set();
  return stops;
}

} // namespace troupe
