#pragma once

#include <caf/actor_clock.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace troupe {

/// A request to a shard that is sent again and again, until one attempt has an
/// answer that counts. A later attempt ends the wait for the earlier ones.
class request_attempt {
public:
  using time_point = caf::actor_clock::time_point;

  /// True if the request can be sent now: no attempt is open, and the shard has
  /// not just ignored one.
  bool can_begin(time_point now) const { return !is_open_ && now >= next_; }
  /// @param number of the attempt; no attempt before has had this number.
  /// @pre `can_begin`.
  void begin(std::uint64_t number, time_point now) {
    number_ = number;
    since_ = now;
    is_open_ = true;
  }
  /// An attempt is answered, or has failed. True if it was the open one.
  bool end(std::uint64_t number) {
    return number_ == number && std::exchange(is_open_, false);
  }
  /// The answer to the last attempt was that the shard cannot take the request
  /// now. The pause before the next attempt doubles each time.
  void pause(time_point now) {
    pause_ = std::clamp(2 * pause_, min_pause, max_pause);
    next_ = now + pause_;
  }
  /// Ends the wait for an answer that is late. The shard then answers the
  /// earlier attempt, so it is known to live.
  void end_if_late(time_point now, std::chrono::milliseconds limit) {
    is_open_ = is_open_ && now - since_ < limit;
  }

private:
  static constexpr std::chrono::milliseconds min_pause{10}, max_pause{500};

  std::uint64_t number_ = 0;
  bool is_open_ = false;
  time_point since_{}, next_{};
  std::chrono::milliseconds pause_{0};
};

} // namespace troupe
