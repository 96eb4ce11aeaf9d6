#pragma once

#include "troupe/strategies/tensor_transfer/receiver.hpp"
#include "troupe/strategies/tensor_transfer/sender.hpp"

#include <cstring>
#include <deque>
#include <span>
#include <vector>

// Two processes that send each other tensors over a simulated lane.

namespace troupe::tensor_transfer::testing {

inline constexpr lane_ends left_ends{1, 10, 20}, right_ends{1, 20, 10};

struct packet {
  packet_header header;
  std::vector<std::byte> payload;
};

/// One process: its sender, its receiver, and what happened to it.
struct transfer_end {
  explicit transfer_end(const lane_ends& ends,
                        const receiver_limits& limits = {})
    : out{ends}, in{ends, limits} {}

  /// Returns the packet that this process sends next. None: it has to wait.
  std::optional<packet> take() {
    if (const auto header = in.next()) {
      in.sent(*header);
      return packet{*header, {}};
    }
    const auto next = out.next();
    if (!next)
      return std::nullopt;
    packet x{next->header, {next->payload.begin(), next->payload.end()}};
    out.sent();
    return x;
  }

  void handle(const packet& x) {
    if (!is_for_receiver(x.header.kind))
      return note(out.on(x.header, x.payload.size()));
    const auto place = in.begin(x.header, x.payload.size());
    note(place.effects);
    if (place.destination.empty())
      return;
    std::memcpy(place.destination.data(), x.payload.data(), x.payload.size());
    note(in.finish());
  }

  void note(const reaction& effects) {
    for (const auto& x : effects)
      if (const auto* violation = std::get_if<protocol_error>(&x))
        error = violation->reason;
      else if (const auto* tensors = std::get_if<arrived>(&x))
        received.push_back(*tensors);
      else if (const auto* cancellation = std::get_if<cancelled>(&x))
        cancellations.push_back(*cancellation);
      else if (const auto* delivery = std::get_if<delivered>(&x))
        deliveries.push_back(delivery->transfer);
      else
        refusals.push_back(std::get<refused>(x).transfer);
  }

  sender out;
  receiver in;
  std::string error;
  std::vector<arrived> received;
  std::vector<cancelled> cancellations;
  std::vector<std::uint64_t> deliveries, refusals;
};

/// A lane between two processes. Each direction holds at most `capacity`
/// packets.
struct simulated_pair {
  explicit simulated_pair(const receiver_limits& limits = {},
                          std::size_t queue_capacity = 4)
    : left{left_ends, limits},
      right{right_ends, limits},
      capacity{queue_capacity} {}

  /// Lets one process send until its direction is full or nothing is left.
  /// @returns the number of packets.
  std::size_t send(transfer_end& from) {
    auto& queue = &from == &left ? to_right : to_left;
    std::size_t count = 0;
    while (queue.size() < capacity) {
      auto x = from.take();
      if (!x)
        break;
      queue.push_back(std::move(*x));
      ++packets, ++count;
    }
    return count;
  }
  /// Lets one process read all its packets. @returns their number.
  std::size_t read(transfer_end& at) {
    auto& queue = &at == &left ? to_left : to_right;
    const auto count = queue.size();
    for (; !queue.empty(); queue.pop_front())
      at.handle(queue.front());
    return count;
  }
  /// Runs both processes until no packet moves.
  void run() {
    while (send(left) + send(right) + read(left) + read(right) > 0) {
    }
  }

  transfer_end left, right;
  std::deque<packet> to_left, to_right;
  std::size_t capacity, packets = 0;
};

/// Returns a tensor whose bytes depend on the number. Booleans are valid.
inline tensor numbered_tensor(const shape& dims, dtype type,
                              std::uint64_t number) {
  tensor x{dims, type};
  const std::span bytes{x.raw(), x.bytes()};
  std::size_t i = number * 101;
  for (auto& b : bytes) {
    ++i;
    b = static_cast<std::byte>((i * 167 + (i >> 8) * 89)
                               & (type == dtype::boolean ? 1 : 255));
  }
  return x;
}

inline tensor bytes_tensor(std::int64_t bytes, std::uint64_t number = 1) {
  return numbered_tensor({bytes}, dtype::uint8, number);
}

} // namespace troupe::tensor_transfer::testing
