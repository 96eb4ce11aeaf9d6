#pragma once

#include "troupe/net/session/channel.hpp"

#include <cstddef>
#include <functional>

namespace troupe::net {

struct loopback_options {
  /// Frames that one side may post and the other has not consumed.
  std::size_t control = 256, bulk = 16;
  frame_limits limits{};
  /// Bytes are handed over so many at a time.
  std::size_t piece = 1500;
};

/// Both ends of a link in one process. Frames go through their bytes, and
/// arrive when `deliver` is called, on the caller's thread.
class loopback {
public:
  enum side : std::size_t { left, right };

  /// What happens to a frame on its way.
  struct fate {
    unsigned copies = 1; ///< 0: it is lost.
    unsigned behind = 0; ///< So many others pass it, if there are any.
    bool cut = false;    ///< The connection ends after these bytes.
  };
  /// May change the bytes. @param from who posted them.
  using meddler = std::function<fate(side from, std::vector<std::byte>& bytes)>;

  explicit loopback(const loopback_options& options = {});
  ~loopback();
  loopback(const loopback&) = delete;
  loopback& operator=(const loopback&) = delete;

  std::shared_ptr<link> end_of(side x) const;

  void meddle(meddler how);

  /// Hands over what was posted, control before bulk, at most so many frames.
  /// @returns how many.
  std::size_t deliver(std::size_t most = ~std::size_t{0});

  /// Both ends hear it.
  void end(ending how, const std::string& why);

private:
  class wire;
  class link_end;
  std::shared_ptr<wire> wire_;
  std::shared_ptr<link> ends_[2];
};

} // namespace troupe::net
