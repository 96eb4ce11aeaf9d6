#pragma once

#include "troupe/net/base/close_reason.hpp"
#include "troupe/net/codec/frame.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace troupe::net {

/// Receives the frames of a channel. Called on the channel's thread; must not
/// block.
class channel_listener {
public:
  virtual ~channel_listener() = default;
  virtual void on_frame(frame&& received) = 0;
  /// Called once, after the last frame. If the channel has ended when the
  /// listener is set, it is called immediately.
  /// @param reason the reason, for people.
  virtual void on_closed(close_reason cause, const std::string& reason) = 0;
};

/// One end of a channel: carries frames between two processes, in order within
/// a priority. Safe to use from any thread.
class channel {
public:
  virtual ~channel() = default;

  virtual void set_listener(std::shared_ptr<channel_listener> listener) = 0;

  /// Sends a frame. Never blocks. Nothing is queued beyond the credits.
  /// @returns false if the frame was not accepted: the credits are used up, too
  ///          many bytes wait to be written, or the channel has ended.
  /// @pre the payload is within the limits.
  virtual bool post(frame&& outgoing) = 0;

  /// Returns the credit of one received frame, so that the other side may post
  /// another.
  virtual void consumed(priority frame_priority) = 0;

  virtual const frame_limits& limits() const = 0;

  /// Maximum number of frames that the other side may post before one of them
  /// is `consumed`.
  virtual std::size_t credits(priority frame_priority) const = 0;

  /// Accepts no more frames. When the posted frames have arrived, both
  /// listeners are notified that the channel is closed.
  virtual void close(const std::string& reason) = 0;
};

} // namespace troupe::net
