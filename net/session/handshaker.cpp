#include "troupe/net/session/handshaker.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace troupe::net {

using status = stream::status;

meeting::meeting(io_loop& by, std::unique_ptr<stream> over_this, handshake how,
                 std::function<verdict(const hello&)> decide,
                 std::function<void()> over)
  : stream_{std::move(over_this)},
    how_{std::move(how)},
    decide_{std::move(decide)},
    over_{std::move(over)},
    watch_{std::make_unique<watch>(by, stream_->descriptor(),
                                   [this] { advance(); })} {}

void meeting::advance() {
  for (;;) {
    if (how_.now() == handshake::state::asked)
      how_.answer(decide_(how_.peer()));
    if (!how_.unsent().empty()) {
      if (!write())
        return;
    } else if (how_.wants() > 0) {
      if (!read())
        return;
    } else {
      taken_ = how_.now() == handshake::state::taken;
      why_ = how_.why();
      return end();
    }
  }
}

/// @returns true if the handshake can go on at once.
bool meeting::write() {
  const auto x = stream_->write_some(how_.unsent());
  how_.sent(x.bytes);
  return x.how == status::ok || wait(x.how);
}

/// Reads only the handshake's own bytes: those that follow belong to the
/// stream's next user.
bool meeting::read() {
  std::array<std::byte, 4096> piece;
  const auto x = stream_->read_some(
    std::span{piece}.first(std::min(how_.wants(), piece.size())));
  heard_ = heard_ || x.bytes > 0;
  how_.take(std::span{piece}.first(x.bytes));
  return x.how == status::ok || wait(x.how);
}

bool meeting::wait(status how) {
  if (how == status::wants_read) {
    watch_->until_readable();
  } else if (how == status::wants_write) {
    watch_->until_writable();
  } else {
    why_ = stream_->problem();
    hopeless_ = how == status::failed;
    end();
  }
  return false;
}

void meeting::end() {
  watch_.reset();
  if (!taken_)
    stream_->close();
  const auto over = std::move(over_);
  over();
}

std::unique_ptr<stream> meeting::take_stream() {
  return std::move(stream_);
}

} // namespace troupe::net
