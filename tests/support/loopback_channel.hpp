#pragma once

#include "troupe/net/session/channel.hpp"

#include <cstddef>
#include <functional>

namespace troupe::net {

struct loopback_options {
  /// Credits by priority: frames that one side may post before the other has
  /// consumed them.
  std::size_t control = 256, bulk = 16;
  frame_limits limits{};
  /// Maximum number of bytes that are passed to the decoder at a time.
  std::size_t piece = 1500;
};

/// Both ends of a channel in one process. Frames are encoded and decoded, and
/// arrive when `deliver` is called, on the caller's thread.
class loopback_channel {
public:
  enum side : std::size_t { left, right };

  /// Fault of a frame in transit.
  struct frame_fault {
    unsigned copies = 1; ///< 0: the frame is lost.
    /// Number of later frames that overtake it, if there are as many.
    unsigned overtaken_by = 0;
    bool cut = false; ///< The stream ends after these bytes.
  };
  /// Decides on the fault of a frame and may change its bytes.
  /// @param from the side that posted it.
  using fault_hook =
    std::function<frame_fault(side from, std::vector<std::byte>& bytes)>;

  explicit loopback_channel(const loopback_options& options = {});
  ~loopback_channel();
  loopback_channel(const loopback_channel&) = delete;
  loopback_channel& operator=(const loopback_channel&) = delete;

  std::shared_ptr<channel> end_of(side requested) const;

  void set_fault_hook(fault_hook hook);

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
