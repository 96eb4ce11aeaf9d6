#include "troupe/net/session/endpoint.hpp"

#include "troupe/net/io/socket_stream.hpp"
#include "troupe/net/session/endpoint_impl.hpp"

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace troupe::net {

namespace {

constexpr auto beyond_loopback =
  " is not a loopback address, and there are no credentials: give a secret "
  "(for example by TROUPE_SECRET_FILE) or certificates (by TROUPE_TLS_CA, "
  "TROUPE_TLS_CERTIFICATE and TROUPE_TLS_KEY), or use 127.0.0.1";

[[noreturn]] void cannot_listen(const address& where, const std::string& why) {
  throw std::runtime_error{"cannot listen at " + to_string(where) + ": " + why};
}

void check(const endpoint_options& x) {
  using namespace std::chrono_literals;
  if (x.heartbeat < 1ms || x.suspect <= x.heartbeat)
    throw std::invalid_argument{
      "heartbeat_interval is " + std::to_string(x.heartbeat.count())
      + " ms and heartbeat_timeout " + std::to_string(x.suspect.count())
      + " ms: the interval must be at least 1 ms, the timeout longer"};
  if (x.patience < 1ms || x.half_open == 0)
    throw std::invalid_argument{
      "handshake_timeout and half_open of an endpoint must be at least 1"};
  if (x.listen && x.last_port != 0 && x.last_port < x.listen->port)
    throw std::invalid_argument{"ports " + std::to_string(x.listen->port)
                                + " to " + std::to_string(x.last_port)
                                + ": the last is below the first"};
}

/// Binds the first free port of the range, at the first address where one is
/// free.
descriptor listen_somewhere(const endpoint_options& x) {
  auto all = resolve(*x.listen);
  if (all.found.empty())
    cannot_listen(*x.listen, all.problem);
  if (x.credentials.none())
    for (const auto& at : all.found)
      if (!at.is_loopback())
        throw std::invalid_argument{"'" + to_string(*x.listen) + "'"
                                    + beyond_loopback};
  int error = 0;
  const auto in_use =
    "; " + (x.last_port != 0 ? "use another range of ports" : x.if_in_use);
  const auto last = std::max<int>(x.listen->port, x.last_port);
  for (int port = x.listen->port; port <= last; ++port)
    for (auto& at : all.found) {
      at.set_port(static_cast<std::uint16_t>(port));
      if (auto made = listen_at(at))
        return made;
      error = errno;
    }
  cannot_listen(*x.listen, std::generic_category().message(error)
                             + (error == EADDRINUSE ? in_use : ""));
}

} // namespace

// -- making and ending --------------------------------------------------------

endpoint::impl::impl(const endpoint_options& x)
  : options{x}, log{x.log}, ticker{*loop, [this] { tick(); }} {
  if (x.credentials.tls)
    certificates.emplace(*x.credentials.tls);
  if (x.listen)
    listen();
}

void endpoint::impl::listen() {
  auto made = listen_somewhere(options);
  const auto at = bound_to(made.get());
  here = options.advertised.value_or(address{options.listen->host, at.port()});
  if (here.port == 0)
    here.port = at.port();
  if (!at.is_loopback() && !certificates)
    log(severity::warning,
        "a secret authenticates the peers at " + to_string(at)
          + ", but the data that follows is neither encrypted nor signed: "
            "use TLS on a shared network");
  entrance.emplace(
    *loop, std::move(made),
    door::settings{
      options.half_open, options.patience, options.credentials.secret,
      [this](int fd) { return wrap(fd, tls::side::acceptor); },
      [this](const hello& x) { return decide(x); },
      [this](const hello& x, std::unique_ptr<stream> it) {
        take(x, arrive(x, std::move(it)));
      },
      [this](const hello& x) { gone ? gone(x) : void(); },
      [this](const std::string& from, const std::string& why) {
        say_closed(from, why);
        const std::lock_guard hold{lock};
        ++away.count;
        away.last = from + ": " + printable(why);
      },
      [this](const std::string& from, const std::string& why) {
        say_closed(from, why);
      },
      [this](const std::string& text) { log(severity::warning, text); },
      [this] { log.pushed_out(); }});
}

std::unique_ptr<stream> endpoint::impl::wrap(int fd, tls::side at) const {
  return certificates ? certificates->wrap(fd, at) : wrap_socket(fd);
}

std::chrono::milliseconds endpoint::impl::tick_time() const {
  using namespace std::chrono_literals;
  return std::max<std::chrono::milliseconds>(
    1ms,
    std::min({options.heartbeat, options.suspect / 4, options.patience / 4}));
}

void endpoint::impl::tick() {
  const auto now = std::chrono::steady_clock::now();
  if (entrance)
    entrance->tick(now);
  log.tick(now);
  const auto all = connections; // a copy: an ended connection leaves the list
  for (const auto& x : all)
    x->tick(now);
  ticker.in(tick_time());
}

void endpoint::impl::say_closed(const std::string& from,
                                const std::string& why) {
  log(severity::info, "a connection from " + from + " was closed: " + why);
}

/// Runs on the loop's thread.
void endpoint::impl::leave() {
  leaving = true;
  entrance.reset();
  for (const auto& x : std::set{dials})
    x->give_up("the endpoint closes");
  for (const auto& x : connections)
    x->close("the endpoint closes");
  check_left();
}

void endpoint::impl::check_left() {
  if (!leaving || !connections.empty())
    return;
  const std::lock_guard hold{lock};
  all_left = true;
  left.notify_all();
}

// -- what arrives -------------------------------------------------------------

arrived endpoint::impl::arrive(const hello& who, std::unique_ptr<stream> it) {
  if (!speaks_frames(who.purpose))
    return it;
  const wired_connection::settings how{options.heartbeat, options.suspect,
                                       options.patience, options.limits};
  auto made = std::make_shared<wired_connection>(
    loop, std::move(it), who, how,
    [this](const wired_connection& x, const switchboard::end& how, bool own) {
      if (!own && !how.said)
        log(severity::warning,
            "the connection to '" + x.peer().name + "' has ended: " + how.why);
      std::erase_if(connections, [&x](const auto& y) { return y.get() == &x; });
      check_left();
    });
  connections.push_back(made);
  loop->post([made] { made->start(); }); // the handler takes ownership first
  return made;
}

void endpoint::impl::dial(const address& where, const hello& who,
                          std::chrono::steady_clock::time_point deadline,
                          std::function<void(dialed&&)> then) {
  dialing::order what{where,
                      who,
                      options.credentials.secret,
                      deadline,
                      options.patience,
                      options.credentials.none(),
                      [this](int fd) { return wrap(fd, tls::side::dialer); }};
  const auto self = std::make_shared<std::weak_ptr<dialing>>();
  const auto x = std::make_shared<dialing>(
    loop, std::move(what),
    [this, self, purpose = who.purpose, where,
     then = std::move(then)](dialed&& how, std::unique_ptr<stream> it) {
      dials.erase(self->lock());
      if (it) {
        auto peer = how.peer;
        peer.purpose = purpose;
        if (peer.name.empty())
          peer.name = to_string(where);
        how.it = arrive(peer, std::move(it));
      } else {
        log(severity::info, "dialing " + how.why); // who dials is told
      }
      then(std::move(how));
    });
  *self = x;
  dials.insert(x);
  if (leaving)
    x->give_up("the endpoint closes");
  else
    x->start();
}

// -- the endpoint -------------------------------------------------------------

endpoint::endpoint(const endpoint_options& options) {
  check(options);
  impl_ = std::make_shared<impl>(options);
  impl_->loop->post([x = impl_.get()] { x->tick(); });
}

endpoint::~endpoint() {
  auto& x = *impl_;
  x.loop->post([&x] { x.leave(); });
  {
    std::unique_lock hold{x.lock};
    x.left.wait_for(hold, x.options.patience, [&x] { return x.all_left; });
  }
  x.loop->stop();
  for (const auto& c : std::vector{x.connections})
    c->end(ending::dead, "the endpoint is closed");
}

const address& endpoint::reachable_at() const {
  if (!impl_->options.listen)
    throw std::logic_error{"an endpoint that does not listen is not reachable"};
  return impl_->here;
}

void endpoint::on_dialed(std::function<verdict(const hello&)> decide,
                         std::function<void(const hello&, arrived&&)> take,
                         std::function<void(const hello&)> gone) {
  impl_->loop->post([x = impl_.get(), decide = std::move(decide),
                     take = std::move(take), gone = std::move(gone)]() mutable {
    x->decide = std::move(decide);
    x->take = std::move(take);
    x->gone = std::move(gone);
    if (x->entrance)
      x->entrance->open();
  });
}

void endpoint::dial(const address& where, const hello& who,
                    std::chrono::milliseconds patience,
                    std::function<void(dialed&&)> then) {
  const auto& how = impl_->options;
  if (!handshake::fits(who))
    throw std::logic_error{"a hello of more than "
                           + std::to_string(most_hello_bytes) + " bytes"};
  if (how.credentials.none() && is_numeric(where)
      && !resolve(where).found.front().is_loopback())
    throw std::invalid_argument{"'" + to_string(where) + "'" + beyond_loopback};
  impl_->loop->post([x = impl_.get(), where, who,
                     deadline = std::chrono::steady_clock::now() + patience,
                     then = std::move(then)]() mutable {
    x->dial(where, who, deadline, std::move(then));
  });
}

bool endpoint::speaks_tls() const {
  return impl_->options.credentials.tls != nullptr;
}

endpoint::strangers endpoint::turned_away() const {
  const std::lock_guard hold{impl_->lock};
  return impl_->away;
}

std::chrono::microseconds endpoint::cpu_time() const {
  return impl_->loop->cpu_time();
}

} // namespace troupe::net
