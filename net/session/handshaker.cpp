#include "troupe/net/session/handshaker.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace troupe::net {

using status = stream::status;

handshaker::handshaker(io_loop& loop, std::unique_ptr<stream> connected_stream,
                       handshake initial_state,
                       std::function<hello_response(const hello&)> authorize,
                       std::function<void()> on_done)
  : stream_{std::move(connected_stream)},
    machine_{std::move(initial_state)},
    authorize_{std::move(authorize)},
    on_done_{std::move(on_done)},
    watcher_{std::make_unique<descriptor_watcher>(loop, stream_->descriptor(),
                                                  [this] { advance(); })} {}

void handshaker::advance() {
  for (;;) {
    if (machine_.current() == handshake::state::awaiting_decision)
      machine_.respond(authorize_(machine_.peer()));
    if (!machine_.unsent().empty()) {
      if (!write())
        return;
    } else if (machine_.bytes_wanted() > 0) {
      if (!read())
        return;
    } else {
      accepted_ = machine_.current() == handshake::state::accepted;
      reason_ = machine_.reason();
      return finish();
    }
  }
}

/// Writes bytes of the handshake.
/// @returns true if the handshake can continue without waiting.
bool handshaker::write() {
  const auto result = stream_->write_some(machine_.unsent());
  machine_.sent(result.bytes);
  return result.state == status::ok || wait(result.state);
}

/// Reads no byte beyond the handshake, because later bytes are for the next
/// user of the stream.
/// @returns true if the handshake can continue without waiting.
bool handshaker::read() {
  std::array<std::byte, 4096> piece;
  const auto result = stream_->read_some(
    std::span{piece}.first(std::min(machine_.bytes_wanted(), piece.size())));
  received_any_ = received_any_ || result.bytes > 0;
  machine_.receive(std::span{piece}.first(result.bytes));
  return result.state == status::ok || wait(result.state);
}

bool handshaker::wait(status blocked_on) {
  if (blocked_on == status::wants_read) {
    watcher_->async_wait_readable();
  } else if (blocked_on == status::wants_write) {
    watcher_->async_wait_writable();
  } else {
    reason_ = stream_->problem();
    permanent_failure_ = blocked_on == status::failed;
    finish();
  }
  return false;
}

void handshaker::finish() {
  watcher_.reset();
  if (!accepted_)
    stream_->close();
  const auto on_done = std::move(on_done_);
  on_done();
}

std::unique_ptr<stream> handshaker::take_stream() {
  return std::move(stream_);
}

} // namespace troupe::net
