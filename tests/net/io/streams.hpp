#pragma once

#include "troupe/net/io/stream.hpp"

#include <array>
#include <chrono>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace troupe::net::testing {

/// Returns two sockets that are connected to each other.
inline std::array<int, 2> socket_pair() {
  std::array<int, 2> x{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, x.data()) != 0)
    throw std::runtime_error{"no pair of sockets"};
  return x;
}

inline std::span<const std::byte> bytes_of(std::string_view x) {
  return std::as_bytes(std::span{x});
}

inline std::string text_of(std::span<const std::byte> x) {
  return {reinterpret_cast<const char*>(x.data()), x.size()};
}

/// Bytes that were read from a stream, and the stream's last status.
struct received {
  std::string text;
  stream::status state = stream::status::ok;
};

/// Writes `sent` to one end of a stream and reads it from the other end.
/// @returns the bytes read and, if an end was closed or failed, its status.
/// @errors throws std::runtime_error after 20 seconds.
inline received pass(stream& sender, stream& receiver, std::string_view sent) {
  const auto deadline =
    std::chrono::steady_clock::now() + std::chrono::seconds{20};
  received got;
  std::vector<std::byte> piece(100'000);
  auto rest = bytes_of(sent);
  while (got.text.size() < sent.size()) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error{"nothing moves"};
    if (!rest.empty()) {
      const auto x = sender.write_some(rest);
      rest = rest.subspan(x.bytes);
      if (x.state == stream::status::failed
          || x.state == stream::status::closed)
        return {got.text, x.state};
    } else {
      sender.read_some(piece); // completes a TLS handshake
    }
    const auto x = receiver.read_some(piece);
    got.text += text_of(std::span{piece}.first(x.bytes));
    if (x.state == stream::status::failed || x.state == stream::status::closed)
      return {got.text, x.state};
  }
  return got;
}

} // namespace troupe::net::testing
