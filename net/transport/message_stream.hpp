#pragma once

#include "troupe/net/codec/codec.hpp"
#include "troupe/net/io/stream.hpp"

#include <chrono>
#include <stdexcept>

namespace troupe::net {

/// Sends and receives short messages over a stream; blocks. Used when a program
/// starts. Reads no byte beyond the message that it receives.
/// @errors all functions throw std::runtime_error with a sentence.
class talk {
public:
  using clock = std::chrono::steady_clock;

  talk(stream& over, clock::time_point until) : over_{over}, until_{until} {}

  template <encodable... Ts>
  void say(const Ts&... xs) {
    say_bytes(encode(xs...));
  }

  template <encodable... Ts>
  void hear(Ts&... xs) {
    if (const auto bad = decode(hear_bytes(), xs...))
      throw std::runtime_error("the peer sent an unexpected message: "
                               + to_string(*bad));
  }

private:
  void say_bytes(std::vector<std::byte> message);
  std::vector<std::byte> hear_bytes();
  void read(std::span<std::byte> to);
  void wait_after(stream::status how);

  stream& over_;
  clock::time_point until_;
};

} // namespace troupe::net
