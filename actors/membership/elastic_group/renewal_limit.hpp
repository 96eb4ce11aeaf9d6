#pragma once

#include "troupe/strategies/membership/view_messages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// Limits how often the members of a job renew their view
/// (view_change.hpp) while the job makes no progress.
class renewal_limit {
public:
  /// Maximum number of renewals at one position.
  static constexpr std::size_t max_renewals = 10;
  /// The same when `slow_after` has passed since the first of them. A renewal
  /// whose lanes cannot be opened takes ten seconds.
  static constexpr std::size_t max_slow_renewals = 5;
  static constexpr std::chrono::milliseconds slow_after{40'000};

  /// A run or its lanes have failed, and the view is to be renewed.
  /// @param now    time since an origin that the caller chooses.
  /// @param at     where the replicas have stopped. A change of it is progress.
  /// @param reason what has failed.
  /// @returns false if that is once too often.
  bool on_renewal(std::chrono::milliseconds now, std::uint64_t view_id,
                  const view_change::job_position& at,
                  const std::string& reason);

  /// The renewals at the last position, as one text.
  std::string describe() const;

private:
  struct renewal {
    std::chrono::milliseconds time;
    std::uint64_t view_id;
    std::string reason;
  };
  std::vector<renewal> renewals_; ///< Renewals at `position_`.
  view_change::job_position position_;
};

} // namespace troupe
