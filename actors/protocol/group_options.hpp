#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/tensors/context.hpp"

#include <cstdint>

// What all crews do alike.

namespace troupe {

inline constexpr std::uint32_t most_replicas = 4096;

/// @errors throws std::invalid_argument with the option and what would do.
void check(const crew_options& x);

/// Sets a replica's context for a step.
void prepare(context& in, const crew_options& options, std::uint32_t replica,
             std::uint64_t step);
void prepare(step_context& at, const crew_options& options,
             std::uint32_t replica, std::uint64_t step, std::uint64_t epoch);

/// A run that goes on where the last one ended belongs to its epoch. Any other
/// begins a new one, so that nothing of an abandoned step can be taken for
/// something of a step of the same number.
class epoch_count {
public:
  std::uint64_t of_run(std::uint64_t first_step);
  void ended(std::uint64_t next_step);

private:
  std::uint64_t epoch_ = 0;
  std::uint64_t next_ = 0;
  bool clean_ = true; ///< Whether the last run came to an end of its own.
};

} // namespace troupe
