#pragma once

#include "troupe/strategies/membership/messages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace troupe {

/// Counts the views in a row that this process could not enter because it had
/// no lanes to a member. A connection or a lane that is cut once needs one
/// renewal of the view. A member whose lanes fail again and again cannot be
/// reached.
class unopened_lanes {
public:
  /// Number of views and minimum time since the first of them, after which a
  /// member counts as one that cannot be reached.
  static constexpr std::size_t min_failures = 2;
  static constexpr std::chrono::milliseconds min_time{1000};
  /// The same after this number of views, however short they were.
  static constexpr std::size_t max_failures = 5;

  /// A member to which no lanes can be opened.
  struct member {
    std::uint32_t task = 0;
    std::uint64_t incarnation = 0;
    /// `is_newer`: it has joined the job after this process. `is_older`: before
    /// this process. Neither: both have begun the job together.
    bool is_newer = false, is_older = false;
  };

  /// @param first the view with which this process has begun, or the one that a
  ///              process which joins has learned.
  /// @param self  incarnation of this process.
  /// @param joins this process does not belong to `first`.
  unopened_lanes(const membership::view& first, std::uint64_t self, bool joins);

  /// This process could not open its lanes to the members of a view with these
  /// tasks.
  /// @param now time since an origin that the caller chooses.
  /// @returns those of them that cannot be reached.
  std::vector<member> on_failure(std::chrono::milliseconds now,
                                 const membership::view& of,
                                 const std::vector<std::uint32_t>& tasks);
  /// This process has entered a view.
  void on_entered(const membership::view& next);

private:
  struct failures {
    std::size_t count = 0;
    std::chrono::milliseconds first{}; ///< Time of the first one.
  };

  void note_members(const membership::view& of);

  std::uint64_t self_;
  /// By incarnation of a member: id of the view in which it has joined. Zero:
  /// before this process.
  std::map<std::uint64_t, std::uint64_t> joined_;
  std::map<std::uint64_t, failures> failures_; ///< By incarnation.
  /// Incarnations of the members of the view that was not entered last.
  std::vector<std::uint64_t> members_;
};

} // namespace troupe
