#pragma once

#include "troupe/net/lanes/lane.hpp"
#include "troupe/strategies/tensor_transfer/receiver.hpp"
#include "troupe/strategies/tensor_transfer/sender.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Sends and receives tensors over a lane that carries nothing else
/// (strategies/tensor_transfer/packet.hpp). The elements pass from the tensor
/// of the sender to the lane, and from the lane to the tensor of the receiver.
/// These are two copies, or one if both processes share memory and the tensor
/// lies in the sender's arena. Like the lane, it has no thread and never
/// blocks, except in `wait`. Only one thread at a time may call its functions.
class transfer_lane {
public:
  transfer_lane(std::unique_ptr<net::lane> carrier,
                const tensor_transfer::lane_ends& ends,
                const tensor_transfer::receiver_limits& limits = {});
  ~transfer_lane();

  /// The state machines, to send, cancel and release transfers and to open and
  /// close channels.
  tensor_transfer::sender& sender() { return sender_; }
  tensor_transfer::receiver& receiver() { return receiver_; }

  /// Sends and receives packets until the lane accepts and has no more, or a
  /// maximum number of packets has passed.
  /// @returns what happened. If the lane ends or the peer violates the
  ///          protocol, the last effect is a `protocol_error` or `failure` is
  ///          set; later calls return nothing.
  tensor_transfer::reaction progress();

  /// Returns why no more tensors can pass. Nullopt: they can.
  const std::optional<std::string>& failure() const { return failure_; }

  /// Number of packets that have arrived.
  std::uint64_t received_packets() const { return received_packets_; }

  /// Waits until `progress` may have something to do, or the timeout has
  /// elapsed.
  /// @param wake_descriptor descriptor that also ends the wait when it is
  ///                        readable. -1: none.
  /// @returns true if there may be something to do.
  bool wait(std::chrono::nanoseconds timeout, int wake_descriptor = -1);

private:
  bool receive(tensor_transfer::reaction& effects);
  bool send();
  bool read_payload();
  void note(tensor_transfer::reaction&& news,
            tensor_transfer::reaction& effects);

  std::unique_ptr<net::lane> carrier_;
  tensor_transfer::sender sender_;
  tensor_transfer::receiver receiver_;
  /// Destination of the payload of the front packet. Nullopt: the header of the
  /// front packet was not handled yet. Empty: the payload is discarded.
  std::optional<std::span<std::byte>> destination_;
  std::vector<std::byte> discarded_; ///< Takes payloads that are discarded.
  std::optional<std::string> failure_;
  std::uint64_t received_packets_ = 0;
  bool unfinished_ = false; ///< The last `progress` ended at its maximum.
  std::vector<pollfd> watched_;
};

} // namespace troupe
