#pragma once

#include "troupe/strategies/step_commit/state_machine.hpp"

#include <span>

namespace troupe::step_commit {

/// Lists replicas for people: "replica 1" or "replicas 1, 3".
std::string replica_list(std::span<const std::uint32_t> ids);

/// Returns a text for people that says why a step does not complete.
/// @param reports the answers to the probe.
/// @param behind  replicas that did not report the step.
/// @param silent  replicas that did not answer the probe.
std::string describe_stall(std::span<const wait_report> reports,
                           std::span<const std::uint32_t> behind,
                           std::span<const std::uint32_t> silent);

} // namespace troupe::step_commit
