#pragma once

#include "troupe/strategies/parameter_server/stored_part.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

// Checks of changes that are the same for all kinds of parts. Each throws
// std::invalid_argument.

namespace troupe::parameter_server {

/// Says why a change does not fit.
[[noreturn]] void reject(const part_change& change, const std::string& why);

/// Checks the update rule of a change that needs one.
/// @param slots number of slots of the optimizer. None: it is new to the part.
void check_rule(const part_change& change, const tensor_spec& part,
                std::optional<std::size_t> slots);

/// By step and replica: gradients that wait for their step to be applied.
template <class Gradient>
using waiting_contributions =
  std::map<std::uint64_t, std::map<std::uint32_t, Gradient>>;

/// Checks the step of a contribution, or of the change that applies
/// contributions. A step below `next_step` has no effect, and is not checked.
template <class Gradient>
void check_step(const part_change& change, std::uint64_t next_step,
                const waiting_contributions<Gradient>& waiting) {
  if (change.step < next_step)
    return;
  if (change.step == std::numeric_limits<std::uint64_t>::max())
    reject(change, "there is no such step");
  const auto found = waiting.find(change.step);
  if (change.what == part_change::kind::contribute) {
    if (change.replica >= max_contributors)
      reject(change, "replica " + std::to_string(change.replica)
                       + " is not below " + std::to_string(max_contributors));
    if (found == waiting.end() && waiting.size() >= max_waiting_steps)
      reject(change,
             "step " + std::to_string(change.step) + " would be one more than "
               + std::to_string(max_waiting_steps) + " steps that wait");
    return;
  }
  for (std::size_t i = 0; i < change.contributors.size(); ++i) {
    const auto replica = change.contributors[i];
    if (i > 0 && replica <= change.contributors[i - 1])
      reject(change, "the replicas are not in ascending order");
    if (found == waiting.end() || !found->second.contains(replica))
      reject(change, "replica " + std::to_string(replica)
                       + " has contributed nothing to step "
                       + std::to_string(change.step));
  }
}

} // namespace troupe::parameter_server
