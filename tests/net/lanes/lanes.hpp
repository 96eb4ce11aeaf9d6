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

inline constexpr std::chrono::seconds test_timeout{20};
inline constexpr std::uint32_t few_slots = 4;

/// The shared memory of two processes, `left` and `right`. Each has a segment
/// and has mapped the segment of the other.
struct shm_contexts {
  explicit shm_contexts(std::uint32_t slots = few_slots,
                        bool with_arenas = false, std::uint32_t lanes = 2) {
    shm_segment a{lanes, slots}, b{lanes, slots};
    shm_view seen_a{a.descriptor(), lanes, slots},
      seen_b{b.descriptor(), lanes, slots};
    auto notifier_a = std::make_shared<event_notifier>(),
         notifier_b = std::make_shared<event_notifier>();
    descriptor notify_end_a{::dup(notifier_a->descriptor())};
    descriptor notify_end_b{::dup(notifier_b->descriptor())};
    left.reset(new shm_context{std::move(a), std::move(seen_b), notifier_a,
                               std::move(notify_end_b)});
    right.reset(new shm_context{std::move(b), std::move(seen_a), notifier_b,
                                std::move(notify_end_a)});
    for (auto* x : {&left, &right})
      if (with_arenas)
        (*x)->own_arena = std::make_shared<const shm_arena>(arena_bytes);
    if (with_arenas) {
      left->peer_arena.emplace(right->own_arena->descriptor());
      right->peer_arena.emplace(left->own_arena->descriptor());
    }
  }
  static constexpr std::size_t arena_bytes = std::size_t{1} << 20;
  std::shared_ptr<shm_context> left, right;
};

/// Returns both ends of a stream without TLS.
inline std::pair<std::unique_ptr<stream>, std::unique_ptr<stream>>
connected_streams() {
  const auto [left, right] = socket_pair();
  return {wrap_socket(left), wrap_socket(right)};
}

/// Returns both ends of a stream with TLS, after the TLS handshake.
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

/// The two ends of a lane.
struct connected_lanes {
  std::unique_ptr<lane> left, right;
};

/// Returns a list of the elements. An initializer list cannot hold elements
/// that can only be moved.
template <class First, class... Rest>
std::vector<std::unique_ptr<lane>> list_of(First first, Rest... rest) {
  std::vector<std::unique_ptr<lane>> list;
  list.push_back(std::move(first));
  (list.push_back(std::move(rest)), ...);
  return list;
}

inline connected_lanes shm_lanes_over(const shm_contexts& contexts,
                                      std::size_t queue) {
  auto [left, right] = connected_streams();
  return {std::make_unique<shm_lane>(contexts.left, queue, std::move(left)),
          std::make_unique<shm_lane>(contexts.right, queue, std::move(right))};
}

/// Makes both ends of a lane of a kind: "shm", "stream" or "tls".
inline connected_lanes make_lanes(const std::string& kind) {
  if (kind == "shm")
    return shm_lanes_over(shm_contexts{}, 0);
  auto [left, right] = kind == "tls" ? secured_streams() : connected_streams();
  return {std::make_unique<stream_lane>(std::move(left)),
          std::make_unique<stream_lane>(std::move(right))};
}

/// True if the lane has ended because of the bytes that it has received.
inline bool is_broken(lane& x) {
  return !x.front() && x.closed() && x.closed()->cause != close_reason::closed
         && !x.front();
}

inline packet_header numbered_header(std::uint64_t number) {
  packet_header x{};
  std::memcpy(x.data(), &number, sizeof number);
  x.back() = std::byte{0xEE};
  return x;
}

/// Returns pseudorandom bytes that depend on the number.
inline std::vector<std::byte> bytes_of(std::uint64_t number, std::size_t size) {
  std::vector<std::byte> x(size);
  std::minstd_rand random{static_cast<std::uint_fast32_t>(number + 1)};
  for (auto& b : x)
    b = static_cast<std::byte>(random() >> 8);
  return x;
}

/// Waits for an event of the lane, at most `test_timeout`.
/// @returns true if there is an event.
inline bool wait_for_event(lane& x) {
  std::vector<pollfd> watched;
  lane* const only[]{&x};
  return wait_any(only, test_timeout, watched);
}

inline bool post_eventually(lane& sender, const packet_header& header,
                            std::span<const std::byte> bytes) {
  const auto deadline = std::chrono::steady_clock::now() + test_timeout;
  while (!sender.post(header, bytes)) {
    if (sender.closed() || std::chrono::steady_clock::now() > deadline)
      return false;
    wait_for_event(sender);
  }
  return true;
}

inline bool flush_eventually(lane& x) {
  const auto deadline = std::chrono::steady_clock::now() + test_timeout;
  while (!x.flush() && std::chrono::steady_clock::now() < deadline)
    wait_for_event(x);
  return x.flush();
}

/// Returns the payload of the next packet. None: the lane has ended, or
/// `test_timeout` has elapsed.
inline std::optional<std::vector<std::byte>>
take_eventually(lane& receiver, packet_header& header) {
  const auto deadline = std::chrono::steady_clock::now() + test_timeout;
  std::vector<std::byte> bytes;
  for (bool known = false;;) {
    if (const auto* next = receiver.front()) {
      header = *next;
      if (!std::exchange(known, true))
        bytes.resize(receiver.front_bytes());
      if (receiver.fetch(bytes)) {
        receiver.pop();
        return bytes;
      }
    } else if (receiver.closed() && !receiver.front()) {
      return std::nullopt;
    }
    if (std::chrono::steady_clock::now() > deadline)
      return std::nullopt;
    receiver.flush();
    wait_for_event(receiver);
  }
}

} // namespace troupe::net::testing
