#pragma once

#include "troupe/strategies/step_commit/state_machine.hpp"

#include <span>

namespace troupe::step_commit {

/// Returns the wait that a role has reported.
role_wait wait_of(const wait_report& report);

/// Completes what is missing in a sum. A replica that adds a part of the sum
/// may know more than one that waits for the sum, also when it has left the
/// step.
/// @param waits those that name no missing replica get the replicas that roles
///        in no step, or in a wait for the same bucket, miss.
void add_missing(std::span<role_wait> waits,
                 std::span<const wait_report> reports);

/// Adds to `out` why its step does not complete: `waits` and `unresponsive`.
/// @param reports the answers to the probe.
/// @param behind  replicas that did not report the step.
/// @param silent  replicas that did not answer the probe.
void add_waits(failure_report& out, std::span<const wait_report> reports,
               std::span<const std::uint32_t> behind,
               std::span<const std::uint32_t> silent);

} // namespace troupe::step_commit
