#pragma once

#include "troupe/strategies/step_commit/state_machine.hpp"

#include <span>

namespace troupe::commit {

/// "replica 1", "replicas 1, 3".
std::string replicas_named(std::span<const std::uint32_t> ids);

/// Why a step does not end, for people.
/// @param said   what those who answered wait for.
/// @param behind replicas that did not report the step.
/// @param silent replicas that did not answer.
std::string explain(std::span<const blame> said,
                    std::span<const std::uint32_t> behind,
                    std::span<const std::uint32_t> silent);

} // namespace troupe::commit
