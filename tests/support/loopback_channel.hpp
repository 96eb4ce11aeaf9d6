#pragma once

#include "troupe/net/session/channel.hpp"

#include <cstddef>
#include <functional>

namespace troupe::net {

struct loopback_options {
  /// Credits of each priority: number of frames that one side may post before
  /// the other side consumes them.
  std::size_t control = 256, bulk = 16;
  frame_limits limits{};
  /// Maximum number of bytes that are passed to the decoder at a time.
  std::size_t piece = 1500;
};

/// Both ends of a channel in one process. Frames are encoded and decoded. They
/// arrive when a test calls `deliver`, on the thread of that call.
class loopback_channel {
public:
  enum side : std::size_t { left, right };

  /// Fault of a frame in transit.
  struct frame_fault {
    /// Number of times that the frame arrives. 0: it is lost.
    unsigned copies = 1;
    /// Number of later frames that arrive before this frame, if so many are
    /// posted.
    unsigned overtaken_by = 0;
    bool cut = false; ///< The channel ends after this frame.
  };
  /// Decides on the fault of a frame and may change its bytes.
  /// @param from the side that posted the frame.
  using fault_hook =
    std::function<frame_fault(side from, std::vector<std::byte>& bytes)>;

  explicit loopback_channel(const loopback_options& options = {});
  ~loopback_channel();
  loopback_channel(const loopback_channel&) = delete;
  loopback_channel& operator=(const loopback_channel&) = delete;

  std::shared_ptr<channel> end_of(side requested) const;

  void set_fault_hook(fault_hook hook);

  /// Sets a function that is called after each frame that an end has posted, on
  /// the thread of that call.
  void set_post_listener(std::function<void()> listener);

  /// Delivers posted frames, control before bulk, at most `max_frames`.
  /// @returns the number of delivered frames.
  std::size_t deliver(std::size_t max_frames = ~std::size_t{0});

  /// Ends the channel; both listeners are notified.
  void close_with(close_reason cause, const std::string& reason);

private:
  class wire;
  class loopback_end;
  std::shared_ptr<wire> wire_;
  std::shared_ptr<channel> ends_[2];
};

} // namespace troupe::net
