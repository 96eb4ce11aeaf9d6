#pragma once

#include "troupe/actors/core/error_code.hpp"
#include "troupe/actors/core/step.hpp"
#include "troupe/strategies/collective_options.hpp"
#include "troupe/tensors/context.hpp"

#include <chrono>
#include <cstdint>

// What all crews do alike.

namespace troupe {

inline constexpr std::uint32_t most_replicas = 4096;

/// Steps that a replica may be ahead of the last commit, in one process.
inline constexpr std::uint64_t default_step_window = 4;
/// Steps that a replica may be ahead of the last commit, in a job of several
/// processes, where a commit takes longer to arrive.
inline constexpr std::uint64_t multi_process_step_window = 16;

struct crew_options {
  std::uint32_t replicas = 1;
  int threads = 1; ///< Of each replica's ops.
  /// Longest that one step, or one wait in it, may take.
  std::chrono::milliseconds patience{60'000};
  /// How long a replica polls for a peer before it parks; negative: 50 us, or
  /// 2 ms where processes share a host, most of them only while nobody else
  /// wants the core; 0 if there are more replicas than cores.
  std::chrono::microseconds polling{-1};
  /// Whether sums are added on the replicas' own threads (the default where
  /// replicas take all cores), or by reducer actors.
  enum class reducers { automatic, hosted, own } reducing = reducers::automatic;
  std::uint64_t seed = 0;  ///< Of random ops (context.hpp).
  std::uint64_t lease = 0; ///< Of `crew::ahead`; 0: what is usual.
  /// Of sums over several processes.
  terms::ways way = terms::ways::tree;
};

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
