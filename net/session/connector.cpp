#include "troupe/net/session/connector.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

namespace troupe::net {

namespace {

using namespace std::chrono_literals;
constexpr auto max_backoff = 200ms;

std::string error_text(int error) {
  return std::generic_category().message(error);
}

} // namespace

connector::connector(std::shared_ptr<io_loop> loop, request options,
                     done_fn on_done)
  : loop_{std::move(loop)},
    request_{std::move(options)},
    on_done_{std::move(on_done)},
    deadline_timer_{*loop_, [this] { on_deadline(); }},
    retry_timer_{*loop_, [this] { resolve_host(); }},
    attempt_timer_{*loop_,
                   [this] { attempt_failed("it did not answer in time"); }} {}

void connector::start() {
  deadline_timer_.expires_after(request_.deadline - clock::now());
  resolve_host();
}

void connector::resolve_host() {
  if (is_numeric(request_.peer_address))
    return on_resolved(resolve(request_.peer_address));
  // A name lookup may block and cannot be cancelled, so it runs on its own
  // thread.
  auto resolve_address = [host_address = request_.peer_address,
                          loop = std::weak_ptr{loop_},
                          self = weak_from_this()] {
    auto all = resolve(host_address);
    if (const auto on = loop.lock())
      on->post([self, all = std::move(all)]() mutable {
        if (const auto x = self.lock())
          x->on_resolved(std::move(all));
      });
  };
  try {
    std::thread{std::move(resolve_address)}.detach();
  } catch (const std::system_error& e) {
    on_resolved({{}, e.what()});
  }
}

void connector::on_resolved(resolved_addresses&& resolved) {
  if (!on_done_)
    return;
  addresses_ = std::move(resolved);
  next_address_ = 0;
  if (addresses_.found.empty()) {
    last_problem_ = addresses_.problem;
    return retry();
  }
  for (const auto& x : addresses_.found)
    if (request_.loopback_only && !x.is_loopback())
      return fail("it is not a loopback address, and there are no credentials: "
                  "give a secret or certificates");
  try_next();
}

void connector::try_next() {
  if (next_address_ == addresses_.found.size())
    return retry();
  socket_ = connect_async(addresses_.found[next_address_++]);
  if (!socket_)
    return attempt_failed(error_text(errno));
  attempt_timer_.expires_after(request_.handshake_timeout);
  try {
    watcher_ = std::make_unique<descriptor_watcher>(*loop_, socket_.get(),
                                                    [this] { on_connected(); });
  } catch (const std::exception& e) {
    return attempt_failed(e.what());
  }
  watcher_->async_wait_writable();
}

void connector::on_connected() {
  if (const auto error = connect_result(socket_.get()); error != 0) {
    peer_responded_ =
      peer_responded_ || error == ECONNREFUSED || error == ECONNRESET;
    return attempt_failed(error_text(error));
  }
  watcher_.reset();
  try {
    start_handshake();
  } catch (const std::exception& e) {
    attempt_failed(e.what());
  }
}

void connector::start_handshake() {
  handshaker_ = std::make_unique<handshaker>(
    *loop_, request_.wrap(socket_.release()),
    handshake{handshake::side::dialer, request_.secret, random_nonce(),
              request_.own_hello},
    nullptr, [this] { on_handshake_done(); });
  handshaker_->start();
}

void connector::on_handshake_done() {
  const auto finished = std::move(handshaker_);
  if (finished->accepted()) {
    endpoint::dial_result result;
    result.peer = finished->machine().peer();
    result.payload = finished->machine().payload();
    return finish(std::move(result), finished->take_stream());
  }
  // the peer has sent a byte, or has at least closed the connection
  peer_responded_ = true;
  if (const auto state = finished->machine().current();
      state == handshake::state::rejected
      || state == handshake::state::wrong_secret) {
    endpoint::dial_result result;
    result.rejected = true;
    result.reason = with_address(finished->reason());
    result.peer = finished->machine().peer();
    result.payload = finished->machine().payload();
    return finish(std::move(result));
  }
  if (finished->is_permanent_failure())
    return fail(finished->reason());
  handshake_problem_ =
    finished->reason()
    + (finished->received_any() ? ""
                                : " before it sent any data; it may "
                                  "require other credentials");
  attempt_failed(handshake_problem_);
}

/// Ends the current attempt and tries the next address of the host.
void connector::attempt_failed(std::string reason) {
  attempt_timer_.cancel();
  watcher_.reset();
  handshaker_.reset();
  socket_ = descriptor{};
  last_problem_ = std::move(reason);
  try_next();
}

void connector::retry() {
  if (!request_.retries)
    return give_up("not reached");
  retry_timer_.expires_after(backoff_);
  backoff_ = std::min<std::chrono::milliseconds>(2 * backoff_, max_backoff);
}

std::string connector::with_address(const std::string& reason) const {
  return to_string(request_.peer_address) + ": " + reason;
}

void connector::on_deadline() {
  give_up("not reached in time");
}

/// Ends the dial because no process has completed the handshake.
void connector::give_up(const std::string& text) {
  endpoint::dial_result result;
  result.cause =
    peer_responded_ ? close_reason::closed : close_reason::timed_out;
  auto reason = last_problem_;
  if (!handshake_problem_.empty() && handshake_problem_ != reason)
    reason += "; before that " + handshake_problem_;
  result.reason =
    with_address(text + (reason.empty() ? "" : " (" + reason + ")"));
  finish(std::move(result));
}

void connector::fail(const std::string& reason) {
  endpoint::dial_result result;
  result.permanent = true;
  result.reason = with_address(reason);
  finish(std::move(result));
}

void connector::cancel(const std::string& reason) {
  fail(reason);
}

void connector::finish(endpoint::dial_result&& result,
                       std::unique_ptr<stream> connected_stream) {
  if (!on_done_)
    return;
  // `on_done` releases the endpoint's pointer to this connector; `self` keeps
  // the connector alive until `finish` returns
  const auto self = shared_from_this();
  watcher_.reset();
  handshaker_.reset();
  socket_ = descriptor{};
  const auto on_done = std::exchange(on_done_, nullptr);
  on_done(std::move(result), std::move(connected_stream));
}

} // namespace troupe::net
