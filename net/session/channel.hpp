#pragma once

#include "troupe/net/base/close_reason.hpp"
#include "troupe/net/codec/frame.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace troupe::net {

/// Receives the frames of a channel. Called on the channel's thread; must not
/// block.
class link_listener {
public:
  virtual ~link_listener() = default;
  virtual void heard(frame&& x) = 0;
  /// Called once, after the last frame. If the channel has ended when the
  /// listener is set, the call comes at once.
  /// @param reason the reason, for people.
  virtual void ended(ending how, const std::string& why) = 0;
};

/// One end of a channel: carries frames between two processes, in order within
/// a priority. Safe to use from any thread.
class link {
public:
  virtual ~link() = default;

  virtual void listen(std::shared_ptr<link_listener> to) = 0;

  /// Sends a frame. Never blocks. Nothing is queued beyond the credits.
  /// @returns false if the frame was not accepted: the credits are used up, too
  ///          many bytes wait to be written, or the channel has ended.
  /// @pre the payload is within the limits.
  virtual bool post(frame&& x) = 0;

  /// Returns the credit of one received frame, so that the other side may post
  /// another.
  virtual void consumed(priority x) = 0;

  virtual const frame_limits& limits() const = 0;

  /// Maximum number of frames that the other side may post before one of them
  /// is `consumed`.
  virtual std::size_t credits(priority x) const = 0;

  /// Accepts no more frames. When the posted frames have arrived, both
  /// listeners are notified that the channel is closed.
  virtual void close(const std::string& why) = 0;
};

} // namespace troupe::net
