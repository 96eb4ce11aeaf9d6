#pragma once

#include "troupe/actors/core/error_code.hpp"
#include "troupe/actors/core/step.hpp"
#include "troupe/strategies/collective_options.hpp"
#include "troupe/tensors/context.hpp"

#include <chrono>
#include <cstdint>

// Options, checks and counters that all kinds of replica groups share.

namespace troupe {

/// Maximum number of replicas of a job.
inline constexpr std::uint32_t most_replicas = 4096;

/// Default number of steps that a replica may run ahead of the last commit in a
/// job of one process.
inline constexpr std::uint64_t default_step_window = 4;
/// Default number of steps that a replica may run ahead of the last commit in a
/// job of several processes, where a commit takes longer to arrive.
inline constexpr std::uint64_t multi_process_step_window = 16;

/// Options of a replica group.
struct crew_options {
  std::uint32_t replicas = 1; ///< Number of replicas of the job.
  int threads = 1;            ///< Threads for the ops of each replica.
  /// Timeout of one step and of each wait in a step.
  std::chrono::milliseconds patience{60'000};
  /// Time for which a waiting replica polls before it parks. Zero: it parks at
  /// once. Negative: 50 us in one process, 2 ms in several processes, and zero
  /// if the host runs more replicas than it has cores.
  std::chrono::microseconds polling{-1};
  /// Where sums are added: on the threads of the replicas or by reducer actors.
  /// Automatic: by reducer actors only if cores are left for them.
  enum class reducers { automatic, hosted, own } reducing = reducers::automatic;
  std::uint64_t seed = 0; ///< Seed of random ops (context.hpp).
  /// Number of steps that a replica may run ahead of the last commit. Zero: the
  /// default, which depends on whether the job has several processes.
  std::uint64_t lease = 0;
  /// Algorithm of the sums over several processes.
  terms::ways way = terms::ways::tree;
};

/// Checks the options.
/// @errors throws std::invalid_argument that names the option, its value and
///         the permitted values.
void check(const crew_options& x);

/// Prepares the context of a replica for a step.
void prepare(context& in, const crew_options& options, std::uint32_t replica,
             std::uint64_t step);
/// Prepares the step context of a replica for a step of a generation.
void prepare(step_context& at, const crew_options& options,
             std::uint32_t replica, std::uint64_t step, std::uint64_t epoch);

/// Counts generations (attempts to run steps). A run that continues the last
/// completed run belongs to its generation. Any other run begins a new one, so
/// that a step is never confused with an abandoned step of the same number.
class epoch_count {
public:
  /// Begins a run. @returns its generation, from 1.
  std::uint64_t of_run(std::uint64_t first_step);
  /// Completes the run. @param next_step the first step that was not run.
  void ended(std::uint64_t next_step);

private:
  std::uint64_t epoch_ = 0;
  std::uint64_t next_ = 0;
  bool clean_ = true; ///< True if the last run completed.
};

} // namespace troupe
