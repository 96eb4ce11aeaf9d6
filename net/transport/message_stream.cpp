#include "troupe/net/transport/message_stream.hpp"

#include <algorithm>
#include <poll.h>

namespace troupe::net {

namespace {

constexpr std::uint32_t max_message_bytes = 4096;

} // namespace

void message_stream::send_bytes(std::vector<std::byte> message) {
  std::byte length[4];
  store_le(length, static_cast<std::uint32_t>(message.size()));
  message.insert(message.begin(), std::begin(length), std::end(length));
  for (std::span<const std::byte> remaining{message}; !remaining.empty();) {
    const auto moved = stream_.write_some(remaining);
    remaining = remaining.subspan(moved.bytes);
    wait_after(moved.state);
  }
}

std::vector<std::byte> message_stream::receive_bytes() {
  std::byte length[4];
  read(length);
  const auto size = load_le<std::uint32_t>(length);
  if (size == 0 || size > max_message_bytes)
    throw std::runtime_error("the peer sent an unexpected message of "
                             + std::to_string(size) + " bytes");
  std::vector<std::byte> message(size);
  read(message);
  return message;
}

void message_stream::read(std::span<std::byte> destination) {
  while (!destination.empty()) {
    const auto moved = stream_.read_some(destination);
    destination = destination.subspan(moved.bytes);
    wait_after(moved.state);
  }
}

/// Waits until the stream may be ready, at most a second. Returns immediately
/// if the last operation transferred bytes.
void message_stream::wait_after(stream::status stream_status) {
  using std::chrono::milliseconds;
  if (stream_status == stream::status::ok)
    return;
  if (stream_status == stream::status::closed)
    throw std::runtime_error("the peer has closed the connection");
  if (stream_status == stream::status::failed)
    throw std::runtime_error("the connection failed: " + stream_.problem());
  const auto remaining =
    std::chrono::ceil<milliseconds>(deadline_ - clock::now()).count();
  if (remaining <= 0)
    throw std::runtime_error("the peer did not answer in time");
  const short events =
    stream_status == stream::status::wants_write ? POLLOUT : POLLIN;
  pollfd x{stream_.descriptor(), events, 0};
  ::poll(&x, 1, static_cast<int>(std::min<std::int64_t>(remaining, 1000)));
}

} // namespace troupe::net
