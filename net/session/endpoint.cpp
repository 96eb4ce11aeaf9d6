#include "troupe/net/session/endpoint.hpp"

#include "troupe/net/io/socket_stream.hpp"
#include "troupe/net/session/endpoint_impl.hpp"

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace troupe::net {

namespace {

constexpr auto not_loopback =
  " is not a loopback address, and there are no credentials: give a secret "
  "(for example by TROUPE_SECRET_FILE) or certificates (by TROUPE_TLS_CA, "
  "TROUPE_TLS_CERTIFICATE and TROUPE_TLS_KEY), or use 127.0.0.1";

[[noreturn]] void cannot_listen(const address& listen_address,
                                const std::string& reason) {
  throw std::runtime_error{"cannot listen at " + to_string(listen_address)
                           + ": " + reason};
}

void check_options(const endpoint_options& options) {
  using namespace std::chrono_literals;
  if (options.connection.heartbeat_interval < 1ms
      || options.connection.heartbeat_timeout
           <= options.connection.heartbeat_interval)
    throw std::invalid_argument{
      "heartbeat_interval is "
      + std::to_string(options.connection.heartbeat_interval.count())
      + " ms and heartbeat_timeout "
      + std::to_string(options.connection.heartbeat_timeout.count())
      + " ms: the interval must be at least 1 ms, the timeout longer"};
  if (options.connection.handshake_timeout < 1ms || options.max_handshakes == 0)
    throw std::invalid_argument{
      "handshake_timeout and max_handshakes of an endpoint must be at least 1"};
  if (options.listen && options.last_port != 0
      && options.last_port < options.listen->port)
    throw std::invalid_argument{"ports " + std::to_string(options.listen->port)
                                + " to " + std::to_string(options.last_port)
                                + ": the last is below the first"};
}

/// Listens at the first free port of the range. For each port it tries all
/// addresses of the host.
descriptor bind_first_free(const endpoint_options& options,
                           const credentials& own_credentials) {
  auto candidates = resolve(*options.listen);
  if (candidates.found.empty())
    cannot_listen(*options.listen, candidates.problem);
  if (own_credentials.none())
    for (const auto& candidate : candidates.found)
      if (!candidate.is_loopback())
        throw std::invalid_argument{"'" + to_string(*options.listen) + "'"
                                    + not_loopback};
  int error = 0;
  const auto in_use = "; "
                      + (options.last_port != 0 ? "use another range of ports"
                                                : options.address_in_use_hint);
  const auto last = std::max<int>(options.listen->port, options.last_port);
  for (int port = options.listen->port; port <= last; ++port)
    for (auto& candidate : candidates.found) {
      candidate.set_port(static_cast<std::uint16_t>(port));
      if (auto made = listen_on(candidate))
        return made;
      error = errno;
    }
  cannot_listen(*options.listen, std::generic_category().message(error)
                                   + (error == EADDRINUSE ? in_use : ""));
}

} // namespace

// -- making and ending --------------------------------------------------------

endpoint::impl::impl(const endpoint_options& initial_options)
  : options{initial_options},
    own_credentials{credentials_of(initial_options.connection)},
    log{initial_options.log},
    tick_timer{*loop, [this] { tick(); }} {
  if (own_credentials.tls)
    certificates.emplace(*own_credentials.tls);
  if (initial_options.listen)
    listen();
}

void endpoint::impl::listen() {
  auto listening = bind_first_free(options, own_credentials);
  const auto bound_address = local_address(listening.get());
  advertised_address = options.advertised.value_or(
    address{options.listen->host, bound_address.port()});
  if (advertised_address.port == 0)
    advertised_address.port = bound_address.port();
  if (!bound_address.is_loopback() && !certificates)
    log(severity::warning,
        "a secret authenticates the peers at " + to_string(bound_address)
          + ", but the data that follows is neither encrypted nor signed: "
            "use TLS on a shared network");
  connection_acceptor.emplace(
    *loop, std::move(listening),
    acceptor::settings{
      options.max_handshakes, options.connection.handshake_timeout,
      own_credentials.secret,
      [this](int fd) { return wrap(fd, tls::side::acceptor); },
      [this](const hello& x) { return authorize(x); },
      [this](const hello& x, std::unique_ptr<stream> it) {
        accepted(x, make_connection(x, std::move(it)));
      },
      [this](const std::string& peer_address, const std::string& reason) {
        count_rejection(peer_address, reason); // before its log line
        log_closed(severity::info, peer_address, reason);
      },
      [this](const std::string& peer_address, const std::string& reason) {
        count_rejection(peer_address, reason); // before its log line
        log_closed(severity_of_wrong_secret(), peer_address, reason);
      },
      [this](const std::string& peer_address, const std::string& reason) {
        log_closed(severity::info, peer_address, reason);
      },
      [this](const std::string& text) { log(severity::warning, text); },
      [this] { log.count_evicted(); }});
}

std::unique_ptr<stream> endpoint::impl::wrap(int fd, tls::side own_side) const {
  return certificates ? certificates->wrap(fd, own_side) : wrap_socket(fd);
}

std::chrono::milliseconds endpoint::impl::tick_interval() const {
  using namespace std::chrono_literals;
  return std::max<std::chrono::milliseconds>(
    1ms, std::min({options.connection.heartbeat_interval,
                   options.connection.heartbeat_timeout / 4,
                   options.connection.handshake_timeout / 4}));
}

void endpoint::impl::tick() {
  const auto now = std::chrono::steady_clock::now();
  if (connection_acceptor)
    connection_acceptor->tick(now);
  log.tick(now);
  // a copy, because `tick` may remove a connection from the list
  const auto all = connections;
  for (const auto& x : all)
    x->tick(now);
  auto next = tick_interval();
  for (const auto& x : connections)
    if (const auto left = x->until_timeout(); left.count() > 0)
      next = std::min(next, left);
  tick_timer.expires_after(next);
}

void endpoint::impl::log_closed(severity level, const std::string& peer_address,
                                const std::string& reason) {
  log(level, "a connection from " + peer_address + " was closed: " + reason);
}

severity endpoint::impl::severity_of_wrong_secret() {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_secret_warning)
    return severity::info;
  next_secret_warning = now + 10s;
  return severity::warning;
}

void endpoint::impl::count_rejection(const std::string& peer_address,
                                     const std::string& reason) {
  const std::lock_guard hold{lock};
  ++rejections.count;
  rejections.last = peer_address + ": " + printable(reason);
}

void endpoint::impl::shut_down() {
  closing = true;
  connection_acceptor.reset();
  for (const auto& x : std::set{connectors})
    x->cancel("the endpoint closes");
  for (const auto& x : connections)
    x->close("the endpoint closes");
  check_all_closed();
}

void endpoint::impl::check_all_closed() {
  if (closing && connections.empty())
    all_closed.notify();
}

// -- what arrives -------------------------------------------------------------

accepted_connection
endpoint::impl::make_connection(const hello& peer,
                                std::unique_ptr<stream> connected_stream) {
  if (!carries_frames(peer.purpose))
    return connected_stream;
  const stream_connection::settings settings{
    options.connection.heartbeat_interval, options.connection.heartbeat_timeout,
    options.connection.handshake_timeout, options.limits};
  auto opened = std::make_shared<stream_connection>(
    loop, std::move(connected_stream), peer, settings,
    [this](const stream_connection& x,
           const multiplexer::closed_state& end_state, bool closed_here) {
      if (!closed_here && !end_state.announced)
        log(severity::warning, "the connection to '" + x.peer().name
                                 + "' has ended: " + end_state.reason);
      std::erase_if(connections, [&x](const auto& y) { return y.get() == &x; });
      check_all_closed();
    });
  connections.push_back(opened);
  // `start` is posted, so that the handler receives the connection before its
  // frames
  loop->post([opened] { opened->start(); });
  return opened;
}

void endpoint::impl::dial(const address& peer_address, const hello& own_hello,
                          std::chrono::steady_clock::time_point deadline,
                          bool retries,
                          std::function<void(dial_result&&)> on_done) {
  connector::request request{
    peer_address,
    own_hello,
    own_credentials.secret,
    deadline,
    options.connection.handshake_timeout,
    own_credentials.none(),
    retries,
    [this](int fd) { return wrap(fd, tls::side::dialer); }};
  const auto self = std::make_shared<std::weak_ptr<connector>>();
  const auto attempt = std::make_shared<connector>(
    loop, std::move(request),
    [this, self, purpose = own_hello.purpose, peer_address,
     on_done = std::move(on_done)](dial_result&& result,
                                   std::unique_ptr<stream> connected_stream) {
      connectors.erase(self->lock());
      if (connected_stream) {
        auto peer = result.peer;
        peer.purpose = purpose;
        if (peer.name.empty())
          peer.name = to_string(peer_address);
        result.connection = make_connection(peer, std::move(connected_stream));
      } else {
        log(severity::info,
            "dialing " + result.reason); // `on_done` reports it too
      }
      on_done(std::move(result));
    });
  *self = attempt;
  connectors.insert(attempt);
  if (closing)
    attempt->cancel("the endpoint closes");
  else
    attempt->start();
}

// -- the endpoint -------------------------------------------------------------

endpoint::endpoint(const endpoint_options& options) {
  check_options(options);
  impl_ = std::make_shared<impl>(options);
  impl_->loop->post([x = impl_.get()] { x->tick(); });
}

endpoint::~endpoint() {
  auto& state = *impl_;
  state.loop->post([&state] { state.shut_down(); });
  state.all_closed.wait_for(state.options.connection.handshake_timeout);
  state.loop->stop();
  for (const auto& c : std::vector{state.connections})
    c->terminate(close_reason::closed, "the endpoint is closed");
}

const address& endpoint::advertised_address() const {
  if (!impl_->options.listen)
    throw std::logic_error{"an endpoint that does not listen is not reachable"};
  return impl_->advertised_address;
}

void endpoint::serve(
  std::function<hello_response(const hello&)> authorize,
  std::function<void(const hello&, accepted_connection&&)> accepted) {
  impl_->loop->post([state = impl_.get(), authorize = std::move(authorize),
                     accepted = std::move(accepted)]() mutable {
    state->authorize = std::move(authorize);
    state->accepted = std::move(accepted);
    if (state->connection_acceptor)
      state->connection_acceptor->open();
  });
}

void endpoint::dial(const address& peer_address, const hello& own_hello,
                    std::chrono::milliseconds timeout,
                    std::function<void(dial_result&&)> on_done) {
  post_dial(peer_address, own_hello, timeout, true, std::move(on_done));
}

void endpoint::dial_once(const address& peer_address, const hello& own_hello,
                         std::chrono::milliseconds timeout,
                         std::function<void(dial_result&&)> on_done) {
  post_dial(peer_address, own_hello, timeout, false, std::move(on_done));
}

void endpoint::post_dial(const address& peer_address, const hello& own_hello,
                         std::chrono::milliseconds timeout, bool retries,
                         std::function<void(dial_result&&)> on_done) {
  if (!handshake::fits(own_hello))
    throw std::logic_error{"a hello of more than "
                           + std::to_string(max_hello_bytes) + " bytes"};
  if (impl_->own_credentials.none() && is_numeric(peer_address)
      && !resolve(peer_address).found.front().is_loopback())
    throw std::invalid_argument{"'" + to_string(peer_address) + "'"
                                + not_loopback};
  impl_->loop->post([x = impl_.get(), peer_address, own_hello,
                     deadline = std::chrono::steady_clock::now() + timeout,
                     retries, on_done = std::move(on_done)]() mutable {
    x->dial(peer_address, own_hello, deadline, retries, std::move(on_done));
  });
}

bool endpoint::uses_tls() const {
  return impl_->own_credentials.tls != nullptr;
}

endpoint::rejected_peers endpoint::rejections() const {
  const std::lock_guard hold{impl_->lock};
  return impl_->rejections;
}

} // namespace troupe::net
