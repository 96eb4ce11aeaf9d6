#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The vote of an audit: the copies of the state of a job must be equal.

namespace troupe {

/// What a replica reports in an audit of the copy of the state that it uses.
struct copy_report {
  std::uint32_t replica = 0;
  std::uint32_t process = 0; ///< Process of the replica, which has the copy.
  /// Number of the copy among those of its process. Replicas of a process that
  /// share one copy report the same number.
  std::uint32_t copy = 0;
  std::uint64_t hash = 0;
  /// False: the copy was made from another one since the last audit. So it is
  /// compared, but does not count for the majority.
  bool has_vote = true;
  /// True: the process knows that a copy has deviated before.
  bool knows_deviation = false;
};

/// Result of a vote.
struct audit_result {
  /// False: no value has more than half of the votes, so no copy is known to be
  /// right.
  bool has_majority = false;
  /// The hash of the majority.
  std::uint64_t majority = 0;
  /// With a majority: the reports of another hash. Without one: all reports.
  /// Empty if all copies are equal.
  std::vector<copy_report> deviating;
};

/// Returns true if all copies have the same hash.
/// @cost allocates no memory.
bool are_equal(std::span<const copy_report> reports);

/// Counts one vote for each copy, however many replicas use it.
audit_result count_votes(std::span<const copy_report> reports);

} // namespace troupe
