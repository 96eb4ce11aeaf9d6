#pragma once

#include "troupe/net/codec/codec.hpp"
#include "troupe/net/io/stream.hpp"

#include <chrono>
#include <stdexcept>

namespace troupe::net {

/// Sends and receives short messages over a stream, when a program starts.
/// Calls block until the deadline at the latest. `receive` reads no byte beyond
/// its message.
/// @errors all functions throw std::runtime_error with a sentence.
class message_stream {
public:
  using clock = std::chrono::steady_clock;

  message_stream(stream& carrier, clock::time_point deadline)
    : stream_{carrier}, deadline_{deadline} {}

  template <encodable... Ts>
  void send(const Ts&... xs) {
    send_bytes(encode(xs...));
  }

  template <encodable... Ts>
  void receive(Ts&... xs) {
    if (const auto bad = decode(receive_bytes(), xs...))
      throw std::runtime_error("the peer sent an unexpected message: "
                               + to_string(*bad));
  }

private:
  void send_bytes(std::vector<std::byte> message);
  std::vector<std::byte> receive_bytes();
  void read(std::span<std::byte> destination);
  void wait_after(stream::status stream_status);

  stream& stream_;
  clock::time_point deadline_;
};

} // namespace troupe::net
