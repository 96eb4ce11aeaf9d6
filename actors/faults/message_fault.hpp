#pragma once

#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/actors/faults/fault_plan.hpp"

#include <random>

// What the faults of single messages do, in the simulator and over processes.
// The seed of the random numbers decides which messages have faults.

namespace troupe::injection {

/// Decides whether a fault with a probability occurs to a message. It does not
/// if the fault is that of a replica which neither sends nor receives it.
bool occurs_to_message(const fault& one, const role_id& sender,
                       const role_id& receiver, std::mt19937_64& random);

/// Adds a fault for which `is_of_messages` is true to those of a message.
void apply_fault(const fault& one, std::mt19937_64& random,
                 fault_injector::injected_fault& message);

} // namespace troupe::injection
