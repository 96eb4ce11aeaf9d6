#pragma once

#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <cstdint>

// The audit of the copies in loops of one's own.

namespace troupe {

/// The copies are compared after each call of `strategy::run` whose number is a
/// multiple of this one.
inline constexpr std::uint64_t audit_runs = 100;

/// Checks that the copies of what an observer owns have equal values in all
/// processes.
/// @errors throws std::logic_error on all of them if copies differ.
using copy_check = void (*)(placement_observer& owner);

/// Sets the check of `check_copies`, which a layer above knows. To be called
/// once, before `main`.
/// @returns true.
bool set_copy_check(copy_check check);

/// Compares the copies of all models of a strategy if that is due. All
/// processes call it after the same call of `run`, between two steps. No effect
/// if all replicas share one copy. No effect in a process in which a client
/// decides on the calls, because the client may give up any.
/// @errors throws as the check.
void audit_copies(const strategy_state& state);

} // namespace troupe
