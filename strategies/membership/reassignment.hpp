#pragma once

#include "troupe/strategies/membership/messages.hpp"

#include <vector>

namespace troupe::membership {

/// Returns the members of a view after some members have gone and others have
/// joined. All replicas of `before` are placed again. A replica whose member
/// stays keeps its place, unless a process that joined takes it.
///
/// A replica without a place goes to the process with the fewest replicas for
/// its capacity, which may be one that joins. Then each process that joins
/// takes replicas, the highest id first, as long as that makes the placement
/// more even. They come from the member with the most replicas for its
/// capacity. On a tie the lowest task is chosen.
///
/// @param before the current view.
/// @param stay   members of `before` that belong to the next view.
/// @param joined processes that join; their `replicas` are ignored.
/// @returns the members in ascending order of their tasks. Empty: no member
///          that stays can host replicas, so the state of the job is lost.
std::vector<member> reassigned(const view& before,
                               const std::vector<member>& stay,
                               const std::vector<member>& joined);

} // namespace troupe::membership
