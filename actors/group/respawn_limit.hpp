#pragma once

#include "troupe/strategies/failure_report.hpp"
#include "troupe/strategies/membership/view_messages.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Returns true if the report says that the actor of a role has ended, although
/// its process may live.
bool is_end_of_role(const failure_report& report);

/// Limits how often the roles of a process are made again, because the actor of
/// one of them has ended. An end counts for the window, and longer while no
/// step is made. So the limit also holds if each end takes longer than the
/// window.
class respawn_limit {
public:
  /// @param max_respawns maximum number of ends that count.
  explicit respawn_limit(
    std::size_t max_respawns = 3,
    std::chrono::milliseconds window = std::chrono::milliseconds{60'000})
    : max_respawns_{max_respawns}, window_{window} {}

  /// The actor of a role has ended.
  /// @param now  time since an origin that the caller chooses.
  /// @param at   where the replicas have stopped. A change of it is progress.
  ///             None: unknown.
  /// @param text a sentence about the end.
  /// @returns false if that is once too often. This end does not count then.
  bool on_end(std::chrono::nanoseconds now,
              const std::optional<view_change::job_position>& at,
              const std::string& text);

  /// Lists the end that was once too often and the ones before, as one text.
  std::string describe() const;

private:
  struct end_of_role {
    std::chrono::nanoseconds time;
    std::optional<view_change::job_position> at;
    std::string text;
  };

  std::size_t max_respawns_;
  std::chrono::milliseconds window_;
  std::vector<end_of_role> ends_; ///< Ends that count.
  end_of_role last_;              ///< The one that was once too often.
};

} // namespace troupe
