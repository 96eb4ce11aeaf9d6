#include "troupe/net/session/acceptor.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

namespace troupe::net {

namespace {

using namespace std::chrono_literals;
/// Maximum number of connections accepted in one turn of the loop, so that
/// other descriptors are served too.
constexpr int most_at_once = 64;
/// Delay before the next attempt when the process has no descriptor or memory
/// left.
constexpr auto pause = 20ms;

bool lacks_something(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS
         || error == ENOMEM;
}

} // namespace

door::door(io_loop& by, descriptor listening, settings how)
  : loop_{by},
    listening_{std::move(listening)},
    how_{std::move(how)},
    pause_{by, [this] { on_knock(); }} {}

void door::open() {
  if (watch_)
    return;
  watch_.emplace(loop_, listening_.get(), [this] { on_knock(); });
  watch_->until_readable();
}

void door::on_knock() {
  for (int i = 0; i < most_at_once; ++i)
    if (!accept_one())
      return;
  watch_->until_readable(); // fires at once if more connections wait
}

bool door::accept_one() {
  place from;
  auto socket = accept_from(listening_.get(), from);
  if (socket) {
    receive(std::move(socket), from);
    return true;
  }
  const auto error = errno;
  if (error == EINTR || error == ECONNABORTED || error == EPROTO)
    return true;
  if (error == EAGAIN || error == EWOULDBLOCK)
    watch_->until_readable();
  else if (lacks_something(error) && !guests_.empty()) {
    push_out_oldest();
    return true;
  } else {
    how_.warn("cannot accept a connection: "
              + std::generic_category().message(error));
    pause_.in(pause);
  }
  return false;
}

void door::receive(descriptor socket, const place& from) {
  const auto who =
    guests_.insert(guests_.end(), {to_string(from), clock::now(), nullptr});
  try {
    who->talk = std::make_unique<meeting>(
      loop_, how_.wrap(socket.release()),
      handshake{handshake::side::acceptor, how_.secret, random_nonce()},
      how_.decide, [this, who] { on_met(who); });
  } catch (const std::exception& e) {
    how_.failed(who->from, e.what());
    guests_.erase(who);
    return;
  }
  if (guests_.size() > how_.half_open)
    push_out_oldest();
  who->talk->start();
}

void door::push_out_oldest() {
  forget(guests_.begin());
  how_.pushed_out();
}

/// The code that authorized this peer may have reserved a slot for it, so it is
/// notified.
void door::forget(guests::iterator who) {
  const auto x = std::move(*who);
  guests_.erase(who);
  if (x.talk->how().now() == handshake::state::taken)
    how_.gone(x.talk->how().peer());
}

void door::on_met(guests::iterator who) {
  if (!who->talk->taken()) {
    const auto how = who->talk->how().now();
    (how == handshake::state::refused ? how_.refused : how_.failed)(
      who->from, who->talk->why());
    return forget(who);
  }
  const auto x = std::move(*who);
  guests_.erase(who);
  how_.take(x.talk->how().peer(), x.talk->take_stream());
}

void door::tick(clock::time_point now) {
  while (!guests_.empty() && now - guests_.front().since > how_.patience) {
    how_.failed(guests_.front().from, "its handshake took too long");
    forget(guests_.begin());
  }
}

} // namespace troupe::net
