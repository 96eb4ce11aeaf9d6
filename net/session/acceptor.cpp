#include "troupe/net/session/acceptor.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

namespace troupe::net {

namespace {

using namespace std::chrono_literals;
/// Maximum number of connections that are accepted in one turn of the loop, so
/// that other descriptors are served too.
constexpr int max_accepts_per_turn = 64;
/// Delay before the next call of `accept` after the process has run out of
/// descriptors or memory.
constexpr auto retry_delay = 20ms;

bool is_resource_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS
         || error == ENOMEM;
}

} // namespace

acceptor::acceptor(io_loop& loop, descriptor listening, settings options)
  : loop_{loop},
    listening_socket_{std::move(listening)},
    settings_{std::move(options)},
    retry_timer_{loop, [this] { on_readable(); }} {}

void acceptor::open() {
  if (watcher_)
    return;
  watcher_.emplace(loop_, listening_socket_.get(), [this] { on_readable(); });
  watcher_->async_wait_readable();
}

void acceptor::on_readable() {
  for (int i = 0; i < max_accepts_per_turn; ++i)
    if (!accept_one())
      return;
  watcher_->async_wait_readable(); // calls immediately if more connections wait
}

bool acceptor::accept_one() {
  socket_address peer_address;
  auto socket = accept_from(listening_socket_.get(), peer_address);
  if (socket) {
    start_handshake(std::move(socket), peer_address);
    return true;
  }
  const auto error = errno;
  if (error == EINTR || error == ECONNABORTED || error == EPROTO)
    return true;
  if (error == EAGAIN || error == EWOULDBLOCK)
    watcher_->async_wait_readable();
  else if (is_resource_shortage(error) && !pending_.empty()) {
    evict_oldest();
    return true;
  } else {
    settings_.warn("cannot accept a connection: "
                   + std::generic_category().message(error));
    retry_timer_.expires_after(retry_delay);
  }
  return false;
}

void acceptor::start_handshake(descriptor socket,
                               const socket_address& peer_address) {
  const auto entry = pending_.insert(
    pending_.end(), {to_string(peer_address), clock::now(), nullptr});
  try {
    entry->active_handshaker = std::make_unique<handshaker>(
      loop_, settings_.wrap(socket.release()),
      handshake{handshake::side::acceptor, settings_.secret, random_nonce()},
      settings_.authorize, [this, entry] { on_handshake_done(entry); });
  } catch (const std::exception& e) {
    settings_.failed(entry->peer_address, e.what());
    pending_.erase(entry);
    return;
  }
  if (pending_.size() > settings_.max_handshakes)
    evict_oldest();
  entry->active_handshaker->start();
}

void acceptor::evict_oldest() {
  remove(pending_.begin());
  settings_.on_evicted();
}

/// Removes a handshake that has not completed.
void acceptor::remove(pending_handshakes::iterator entry) {
  const auto removed = std::move(*entry); // its end may use `pending_`
  pending_.erase(entry);
}

void acceptor::on_handshake_done(pending_handshakes::iterator entry) {
  if (!entry->active_handshaker->accepted()) {
    const auto state = entry->active_handshaker->machine().current();
    (state == handshake::state::rejected       ? settings_.rejected
     : state == handshake::state::wrong_secret ? settings_.wrong_secret
                                               : settings_.failed)(
      entry->peer_address, entry->active_handshaker->reason());
    return remove(entry);
  }
  const auto done = std::move(*entry);
  pending_.erase(entry);
  settings_.accepted(done.active_handshaker->machine().peer(),
                     done.active_handshaker->take_stream());
}

void acceptor::tick(clock::time_point now) {
  while (!pending_.empty()
         && now - pending_.front().accepted_at > settings_.handshake_timeout) {
    settings_.failed(pending_.front().peer_address,
                     "its handshake took too long");
    remove(pending_.begin());
  }
}

} // namespace troupe::net
