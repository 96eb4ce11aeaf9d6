#pragma once

#include "troupe/strategies/error_code.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

/// The tensors of a message that have arrived over the lane of a connection.
struct arrived_tensors {
  std::uint64_t transfer = 0; ///< Number of the transfer, to release it.
  std::uint64_t message = 0;  ///< Tag of the message to which they belong.
  troupe::tensors tensors;
};

/// No more tensors arrive. The connection ends too.
struct lane_ended {
  /// `protocol`: the peer violated the protocol. `peer_lost`: another end, for
  /// which the connection reports the reason.
  ec code = ec::peer_lost;
  std::string reason;
};

/// One end of the tensors of a channel. They pass over the lane of the
/// channel's connection, and their messages pass over the channel. Any thread
/// may call its functions, and none blocks.
class tensor_channel {
public:
  using event = std::variant<arrived_tensors, lane_ended>;
  /// Receives the tensors, and last the end of the lane. It is called by one
  /// thread at a time and must not block.
  using listener = std::function<void(event&&)>;

  virtual ~tensor_channel() = default;

  /// Begins to receive. No tensors arrive before this call.
  virtual void set_listener(listener on_event) = 0;

  /// Sends the tensors of a message that was posted. The tensors must not
  /// change until they have arrived. They are dropped if the peer has closed
  /// its end or the lane has ended.
  /// @param message tag of the message.
  virtual void send(std::uint64_t message, tensors values) = 0;

  /// Notes that a message with tensors has arrived. If the tensors do not
  /// arrive in time, the lane ends with a protocol error.
  virtual void expect(std::uint64_t message) = 0;

  /// Returns the memory of tensors that have arrived to the peer's credits.
  virtual void release(std::uint64_t transfer) = 0;

  /// Ends the lane and the connection, because the peer violated the protocol.
  virtual void fail(const std::string& reason) = 0;

  /// Ends this end. No more tensors arrive; those that were sent still do.
  virtual void close() = 0;
};

} // namespace troupe
