#include "troupe/actors/node/remote_node.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/actors/core/shared_arena.hpp"
#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/node/lane_acceptor.hpp"
#include "troupe/actors/remoting/lane_thread.hpp"

#include <caf/scoped_actor.hpp>

#include <random>

namespace troupe {

namespace {

constexpr auto own_close_reason = "the client closed the node's handle";

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

} // namespace

struct remote_node::impl {
  impl(runtime& local_runtime, const std::string& node_address,
       const client_options& options)
    : address{node_address},
      options{options},
      system{local_runtime.system()},
      endpoint{make_client_endpoint(options)},
      hello{{},
            options.name,
            local_runtime.incarnation(),
            "node",
            net::encode(random_number())},
      deadline{std::chrono::steady_clock::now() + options.connect_timeout},
      connection{
        connect(*endpoint, node_address, hello, options.connect_timeout)},
      node_proxy{spawn_proxy<node_actor>(
        local_runtime.system(), connection->open(root_channel),
        proxy_options{.request_timeout = options.connect_timeout,
                      .target = "node " + node_address,
                      .process = "node " + node_address,
                      .own_close_reason = own_close_reason})} {
    release_caf_logger();
    if (connection->peer().payload == hello.payload) // the node has a lane
      open_lane();
  }

  ~impl() { connection->close(own_close_reason); }

  /// Opens the lane. The hello of its stream has the payload of the
  /// connection's hello, so the node knows to which connection the lane
  /// belongs.
  void open_lane() {
    using std::chrono::milliseconds;
    const auto left = std::chrono::duration_cast<milliseconds>(
      deadline - std::chrono::steady_clock::now());
    hello.purpose = tensors_purpose;
    std::promise<std::unique_ptr<net::stream>> opened;
    opened.set_value(connect_stream(*endpoint, address, hello,
                                    std::max(left, milliseconds{100})));
    lane = std::make_shared<connection_lane>(connection_lane::options{
      .ends = {0, hello.incarnation, connection->peer().incarnation}});
    driver.emplace(
      connection, lane, opened.get_future(),
      lane_thread::options{.lane = lane_config(), .log = log_of_connections});
  }

  net::lane_options lane_config() const {
    net::lane_options config;
    config.policy = options.shared_memory ? net::lane_policy::automatic
                                          : net::lane_policy::stream;
    config.is_dialer = true;
    config.stream_transport = endpoint->uses_tls() ? "tls" : "tcp";
    config.handshake_timeout = options.connect_timeout;
    if (options.shared_memory)
      config.arena = shared_arena();
    return config;
  }

  std::string address;
  client_options options;
  caf::actor_system& system;
  std::unique_ptr<net::endpoint> endpoint;
  net::hello hello;
  /// Deadline of the connection.
  std::chrono::steady_clock::time_point deadline;
  std::shared_ptr<net::connection> connection;
  node_actor node_proxy;
  /// Lane for large tensors. Null: the node has none for this connection.
  std::shared_ptr<connection_lane> lane;
  std::optional<lane_thread> driver;
};

remote_node::remote_node(runtime& local_runtime, const std::string& address,
                         const client_options& options)
  : impl_{std::make_unique<impl>(local_runtime, address, options)} {}

remote_node::~remote_node() = default;

remote_node::spawned_role
remote_node::request_spawn(const spawn_request& request) {
  const auto operation =
    "node " + impl_->address + ": spawning \"" + request.role + "\"";
  const auto channel =
    ask<std::uint32_t>(system(), operation, impl_->node_proxy,
                       impl_->options.connect_timeout, atom::spawn_v, request);
  try {
    auto opened = impl_->connection->open(channel);
    return {
      std::move(opened),
      {.request_timeout = impl_->options.request_timeout,
       .window = impl_->options.window,
       .target = "role \"" + request.role + "\" of node " + impl_->address,
       .process = "node " + impl_->address,
       .own_close_reason = own_close_reason,
       .lane = impl_->lane ? impl_->lane->open(channel) : nullptr}};
  } catch (const std::logic_error& e) { // the node broke the protocol
    throw job_error{ec::protocol,
                    operation + ": the response is invalid: " + e.what()};
  }
}

std::uint64_t remote_node::incarnation() const {
  return impl_->connection->peer().incarnation;
}

node_info remote_node::info() {
  return ask<node_info>(system(), "node " + impl_->address + ": info",
                        impl_->node_proxy, impl_->options.connect_timeout,
                        atom::info_v);
}

void remote_node::stop() {
  caf::anon_send(impl_->node_proxy, atom::stop_v);
}

bool remote_node::stop_and_wait(std::chrono::milliseconds timeout) {
  bool has_ended = false;
  {
    caf::scoped_actor self{system()};
    self->monitor(impl_->node_proxy);
    self->send(impl_->node_proxy, atom::stop_v);
    self->receive([&](const caf::down_msg&) { has_ended = true; },
                  caf::after(timeout) >> [] {});
  }
  release_caf_logger();
  return has_ended;
}

caf::actor_system& remote_node::system() {
  return impl_->system;
}

} // namespace troupe
