#pragma once

#include "troupe/net/io/socket_stream.hpp"
#include "troupe/net/lanes/stream_lane.hpp"
#include "troupe/net/security/tls.hpp"
#include "troupe/net/shm/shm_lane.hpp"
#include "troupe/tests/net/io/streams.hpp"
#include "troupe/tests/net/security/certificates.hpp"

#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

namespace troupe::net::testing {

inline constexpr std::chrono::seconds patience{20};
inline constexpr std::uint32_t few_slots = 4;

/// The shared memory of two processes, each with a view of the other's segment.
struct shm_grounds {
  explicit shm_grounds(std::uint32_t slots = few_slots,
                       bool with_arenas = false) {
    shm_segment a{slots}, b{slots};
    shm_view seen_a{a.descriptor(), slots}, seen_b{b.descriptor(), slots};
    auto bell_a = std::make_shared<bell>(), bell_b = std::make_shared<bell>();
    descriptor ring_a{::dup(bell_a->descriptor())};
    descriptor ring_b{::dup(bell_b->descriptor())};
    left.reset(new shm_ground{std::move(a), std::move(seen_b), bell_a,
                              std::move(ring_b)});
    right.reset(new shm_ground{std::move(b), std::move(seen_a), bell_b,
                               std::move(ring_a)});
    for (auto* x : {&left, &right})
      if (with_arenas)
        (*x)->my_arena = std::make_shared<const shm_arena>(arena_bytes);
    if (with_arenas) {
      left->their_arena.emplace(right->my_arena->descriptor());
      right->their_arena.emplace(left->my_arena->descriptor());
    }
  }
  static constexpr std::size_t arena_bytes = std::size_t{1} << 20;
  std::shared_ptr<shm_ground> left, right;
};

/// Both ends of a stream without TLS.
inline std::pair<std::unique_ptr<stream>, std::unique_ptr<stream>>
connected_streams() {
  const auto [left, right] = socket_pair();
  return {wrap_socket(left), wrap_socket(right)};
}

/// Both ends of a stream with TLS, after the handshake.
inline std::pair<std::unique_ptr<stream>, std::unique_ptr<stream>>
secured_streams() {
  struct files_in_folder : certificate_test {
    void TestBody() override {}
    const tls mutual{good()};
  };
  static const files_in_folder files;
  const auto [left, right] = socket_pair();
  auto dialer = files.mutual.wrap(left, tls::side::dialer);
  auto acceptor = files.mutual.wrap(right, tls::side::acceptor);
  pass(*dialer, *acceptor, "x");
  pass(*acceptor, *dialer, "x");
  return {std::move(dialer), std::move(acceptor)};
}

/// Both ends of a lane.
struct lane_pair {
  std::unique_ptr<lane> left, right;
};

inline lane_pair lanes_over(const shm_grounds& grounds, std::size_t queue) {
  auto [left, right] = connected_streams();
  return {std::make_unique<shm_lane>(grounds.left, queue, std::move(left)),
          std::make_unique<shm_lane>(grounds.right, queue, std::move(right))};
}

/// Makes lanes of a kind: "shm", "stream" or "tls".
inline lane_pair make_lanes(const std::string& kind) {
  if (kind == "shm")
    return lanes_over(shm_grounds{}, 0);
  auto [left, right] = kind == "tls" ? secured_streams() : connected_streams();
  return {std::make_unique<stream_lane>(std::move(left)),
          std::make_unique<stream_lane>(std::move(right))};
}

/// True if the lane has ended because its peer violated the protocol.
inline bool is_broken(lane& x) {
  return !x.front() && x.ended() && x.ended()->how == ending::broken
         && !x.front();
}

inline parcel_head head_of(std::uint64_t number) {
  parcel_head x{};
  std::memcpy(x.data(), &number, sizeof number);
  x.back() = std::byte{0xEE};
  return x;
}

/// Bytes that differ from those of any other number.
inline std::vector<std::byte> bytes_of(std::uint64_t number, std::size_t size) {
  std::vector<std::byte> x(size);
  std::minstd_rand random{static_cast<std::uint_fast32_t>(number + 1)};
  for (auto& b : x)
    b = static_cast<std::byte>(random() >> 8);
  return x;
}

/// Waits for an event until the timeout has elapsed.
inline bool wait_for_news(lane& x) {
  std::vector<pollfd> watched;
  lane* const only[]{&x};
  return sleep_on(only, patience, watched);
}

inline bool post_sometime(lane& to, const parcel_head& head,
                          std::span<const std::byte> bytes) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!to.post(head, bytes)) {
    if (to.ended() || std::chrono::steady_clock::now() > until)
      return false;
    wait_for_news(to);
  }
  return true;
}

inline bool flush_sometime(lane& x) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!x.flush() && std::chrono::steady_clock::now() < until)
    wait_for_news(x);
  return x.flush();
}

/// Payload of the next packet. None: the lane ended before it arrived.
inline std::optional<std::vector<std::byte>> take_sometime(lane& from,
                                                           parcel_head& head) {
  const auto until = std::chrono::steady_clock::now() + patience;
  std::vector<std::byte> bytes;
  for (bool known = false;;) {
    if (const auto* next = from.front()) {
      head = *next;
      if (!std::exchange(known, true))
        bytes.resize(from.front_bytes());
      if (from.fetch(bytes)) {
        from.pop();
        return bytes;
      }
    } else if (from.ended() && !from.front()) {
      return std::nullopt;
    }
    if (std::chrono::steady_clock::now() > until)
      return std::nullopt;
    from.flush();
    wait_for_news(from);
  }
}

} // namespace troupe::net::testing
