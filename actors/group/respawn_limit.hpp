#pragma once

#include "troupe/strategies/failure_report.hpp"

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>

namespace troupe {

/// Returns true if the report says that the actor of a role has ended, although
/// its process may live.
bool is_end_of_role(const failure_report& report);

/// Limits how often the roles of a process are made again, because the actor of
/// one of them has ended.
class respawn_limit {
public:
  /// @param max_respawns maximum number of ends within the window.
  explicit respawn_limit(
    std::size_t max_respawns = 3,
    std::chrono::milliseconds window = std::chrono::milliseconds{60'000})
    : max_respawns_{max_respawns}, window_{window} {}

  /// The actor of a role has ended.
  /// @param now  time since an origin that the caller chooses.
  /// @param text a sentence about the end.
  /// @returns false if that is once too often. This end does not count then.
  bool on_end(std::chrono::nanoseconds now, const std::string& text);

  /// Lists the end that was once too often and the ones before, as one text.
  std::string describe() const;

private:
  struct end_of_role {
    std::chrono::nanoseconds time;
    std::string text;
  };

  std::size_t max_respawns_;
  std::chrono::milliseconds window_;
  std::deque<end_of_role> ends_; ///< In `window_`.
  std::string last_;             ///< Text of the last end.
};

} // namespace troupe
