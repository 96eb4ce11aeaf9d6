#pragma once

#include "troupe/net/base/close_reason.hpp"
#include "troupe/net/codec/frame.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace troupe::net {

/// Hears what comes over a link; called on the link's thread, must not block.
class link_listener {
public:
  virtual ~link_listener() = default;
  virtual void heard(frame&& x) = 0;
  /// Said once, and the last that is heard; at once by who listens too late.
  /// @param why for people.
  virtual void ended(ending how, const std::string& why) = 0;
};

/// One end of what carries frames between two processes, in order within a
/// priority. Safe to use from any thread.
class link {
public:
  virtual ~link() = default;

  virtual void listen(std::shared_ptr<link_listener> to) = 0;

  /// Never blocks.
  /// @returns false if the frame was not taken: the other side has not dealt
  ///          with enough of those before it, or the link has ended. There is
  ///          no queue that could grow.
  /// @pre the payload is within the limits.
  virtual bool post(frame&& x) = 0;

  /// A frame that was heard is dealt with: the other side may post another.
  virtual void consumed(priority x) = 0;

  virtual const frame_limits& limits() const = 0;

  /// Frames that the other side may post before one of them is `consumed`.
  virtual std::size_t credits(priority x) const = 0;

  /// Takes no more; when what was posted has arrived, both ends hear that the
  /// link is `dead`.
  virtual void close(const std::string& why) = 0;
};

} // namespace troupe::net
