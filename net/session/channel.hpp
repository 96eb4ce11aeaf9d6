#pragma once

#include "troupe/net/base/close_reason.hpp"
#include "troupe/net/codec/frame.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace troupe::net {

/// Receives the frames of a channel. Its functions are called by one thread at
/// a time and must not block.
class channel_listener {
public:
  virtual ~channel_listener() = default;
  virtual void on_frame(frame&& received) = 0;
  /// Called once, after `on_frame` has been called for the last frame. If the
  /// channel ends before it has a listener, it keeps the received frames. A
  /// listener that is set later then receives them before this call.
  /// @param reason text that says why the channel has ended.
  virtual void on_closed(close_reason cause, const std::string& reason) = 0;
};

/// One end of a channel, which carries frames between two processes. Frames of
/// one priority arrive in order. Any thread may call its functions.
class channel {
public:
  virtual ~channel() = default;

  virtual void set_listener(std::shared_ptr<channel_listener> listener) = 0;

  /// Sends a frame. It never blocks, and queues no frame without credit.
  /// @returns false if the frame is not sent: the credits are used up, too many
  ///          bytes wait to be written, or the channel has ended.
  /// @pre the payload is within the limits.
  virtual bool post(frame&& outgoing) = 0;

  /// Returns true if no frame can be posted any more, because the channel or
  /// its connection has ended or is being closed. The listener may hear of the
  /// end later.
  virtual bool has_ended() const = 0;

  /// Returns the credit of one received frame to the peer, which may then post
  /// another frame.
  virtual void consumed(priority frame_priority) = 0;

  virtual const frame_limits& limits() const = 0;

  /// Returns the maximum number of frames of a priority that the peer may post
  /// before this side has `consumed` one of them.
  virtual std::size_t credits(priority frame_priority) const = 0;

  /// Starts the close of the channel. No more frames can be posted. When all
  /// posted frames have arrived, the listeners of both sides are called.
  virtual void close(const std::string& reason) = 0;
};

} // namespace troupe::net
