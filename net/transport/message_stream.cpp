#include "troupe/net/transport/message_stream.hpp"

#include <algorithm>
#include <poll.h>

namespace troupe::net {

namespace {

constexpr std::uint32_t longest = 4096;

} // namespace

void talk::say_bytes(std::vector<std::byte> message) {
  std::byte length[4];
  store_le(length, static_cast<std::uint32_t>(message.size()));
  message.insert(message.begin(), std::begin(length), std::end(length));
  for (std::span<const std::byte> left{message}; !left.empty();) {
    const auto moved = over_.write_some(left);
    left = left.subspan(moved.bytes);
    wait_after(moved.how);
  }
}

std::vector<std::byte> talk::hear_bytes() {
  std::byte length[4];
  read(length);
  const auto size = load_le<std::uint32_t>(length);
  if (size == 0 || size > longest)
    throw std::runtime_error("the peer sent an unexpected message of "
                             + std::to_string(size) + " bytes");
  std::vector<std::byte> message(size);
  read(message);
  return message;
}

void talk::read(std::span<std::byte> to) {
  while (!to.empty()) {
    const auto moved = over_.read_some(to);
    to = to.subspan(moved.bytes);
    wait_after(moved.how);
  }
}

/// Waits until the stream may be ready, at most a second. Returns at once if
/// bytes moved.
void talk::wait_after(stream::status how) {
  using std::chrono::milliseconds;
  if (how == stream::status::ok)
    return;
  if (how == stream::status::closed)
    throw std::runtime_error("the peer has closed the connection");
  if (how == stream::status::failed)
    throw std::runtime_error("the connection failed: " + over_.problem());
  const auto left =
    std::chrono::ceil<milliseconds>(until_ - clock::now()).count();
  if (left <= 0)
    throw std::runtime_error("the peer did not answer in time");
  const short events = how == stream::status::wants_write ? POLLOUT : POLLIN;
  pollfd x{over_.descriptor(), events, 0};
  ::poll(&x, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
}

} // namespace troupe::net
