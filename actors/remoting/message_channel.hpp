#pragma once

#include "troupe/actors/remoting/tensor_channel.hpp"
#include "troupe/net/session/channel.hpp"

#include <deque>
#include <map>
#include <optional>
#include <set>

namespace troupe {

/// A message that has arrived with all its tensors.
struct received_message {
  net::frame frame; ///< Its payload is the message.
  tensors lane_tensors;
  /// Number of the transfer of these tensors. Zero: there are none.
  std::uint64_t transfer = 0;
};

/// One end of a channel that carries the messages of a role. The frames pass
/// over a channel of a connection, and large tensors over the lane of the
/// connection, if it has one.
///
/// A message is posted as a frame, and then its tensors are sent. If the
/// connection has a lane, the payload of a bulk frame ends with the number of
/// the tensors. A bulk frame waits until the tensors of all bulk frames before
/// it have arrived, so the messages keep their order. Control frames pass.
/// A waiting frame keeps its credit, so their number is bounded.
class message_channel {
public:
  message_channel() = default;
  /// @param lane end of the tensors of this channel. Null: the connection has
  ///             no lane.
  message_channel(std::shared_ptr<net::channel> frames,
                  std::shared_ptr<tensor_channel> lane);
  ~message_channel();
  message_channel(message_channel&&) = default;
  message_channel& operator=(message_channel&&) = default;

  bool uses_lane() const { return lane_ != nullptr; }

  // -- sending ----------------------------------------------------------------

  /// Returns the size of a message with its tensors, if the size is beyond the
  /// limit of the channel.
  std::optional<std::string> size_problem(std::size_t payload_bytes,
                                          const tensors& lane_tensors,
                                          net::priority priority) const;

  /// Sends a message. @returns false if the channel accepts no more frames.
  /// @pre `size_problem` returns nothing. Without lane or with control
  ///      priority, there are no tensors.
  bool post(net::frame&& message, tensors lane_tensors);

  /// Returns true if no message can be sent any more.
  bool has_ended() const { return frames_->has_ended(); }
  void close(const std::string& reason);

  // -- receiving --------------------------------------------------------------

  /// Adds what has arrived.
  /// @errors a malformed frame ends the connection and is dropped.
  void add(net::frame&& arrived);
  void add(arrived_tensors&& arrived);
  /// Drops a frame that is not wanted, and its tensors when they arrive.
  void drop(net::frame&& arrived);

  /// Returns the next message in order. Nullopt: none is complete.
  std::optional<received_message> next();

  /// True if messages wait for tensors.
  bool is_waiting() const { return !waiting_.empty(); }

  /// Drops the messages that wait for tensors, and those that would wait from
  /// now on, because no more tensors arrive.
  void end_lane();

  /// Returns the credit of a message that `next` has returned.
  void consumed(net::priority priority) { frames_->consumed(priority); }
  std::size_t credits(net::priority priority) const {
    return frames_->credits(priority);
  }

  /// Returns the memory of the tensors of a message that was read. Zero: no
  /// effect.
  void release(std::uint64_t transfer);

  /// Ends the connection, because the peer violated the protocol of lanes. No
  /// effect without a lane.
  void fail(const std::string& reason);

private:
  struct waiting_frame {
    net::frame frame;
    std::uint32_t tensors = 0; ///< Number of its tensors on the lane.
  };

  std::shared_ptr<net::channel> frames_;
  std::shared_ptr<tensor_channel> lane_;
  std::deque<net::frame> control_;    ///< Control frames for `next`.
  std::deque<waiting_frame> waiting_; ///< Bulk frames, the oldest first.
  /// Tensors that have arrived, by the tag of their message.
  std::map<std::uint64_t, arrived_tensors> arrived_;
  /// Tags of dropped messages whose tensors have not arrived.
  std::set<std::uint64_t> dropped_;
  bool lane_ended_ = false;
};

} // namespace troupe
