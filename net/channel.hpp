#pragma once

#include "troupe/net/frame.hpp"

#include <functional>
#include <memory>
#include <string>

namespace troupe::net {

/// Who listens at an end of a channel. Called on the channel's thread; must not
/// block.
struct channel_listener {
  std::function<void(frame&&)> heard;
  /// The other end is gone; nothing more will come.
  std::function<void(const std::string& why)> lost;
  /// The other end sent what is no frame; the channel is closed.
  std::function<void(const std::string& why)> broken;
};

/// One end of a connection between two processes. Any thread may post.
class channel {
public:
  virtual ~channel() = default;

  /// @pre before anything can be heard.
  virtual void listen(channel_listener to) = 0;

  /// Never blocks.
  /// @returns false if the other side has not taken enough of what was posted
  ///          before, or the channel is closed: there is no queue that could
  ///          grow.
  virtual bool post(const frame& x) = 0;

  /// Says that a heard frame was dealt with: the other side may post one more.
  virtual void consumed() = 0;

  /// The other end hears `lost`.
  virtual void close(const std::string& why) = 0;
};

/// The two ends of a channel inside one process. Frames go through their bytes,
/// and are heard within `post`.
struct loopback {
  std::shared_ptr<channel> left, right;
  /// If set, may change what passes, or throw it away by returning false.
  std::shared_ptr<std::function<bool(std::vector<std::byte>&)>> tamper;
};

/// @param credits frames that either end may be behind.
loopback make_loopback(std::size_t credits);

} // namespace troupe::net
