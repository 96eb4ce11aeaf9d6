#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/step.hpp"
#include "troupe/strategies/collective_options.hpp"
#include "troupe/strategies/placement.hpp"
#include "troupe/tensors/context.hpp"

#include <chrono>
#include <cstdint>
#include <memory>

// Options, checks and counters that all kinds of replica groups share.

namespace troupe {

class flight_recorder;

/// Default number of steps that a replica may run ahead of the last commit in a
/// job of one process.
inline constexpr std::uint64_t default_step_window = 4;
/// Default number of steps that a replica may run ahead of the last commit in a
/// job of several processes. Between processes, a commit takes longer to
/// arrive.
inline constexpr std::uint64_t multi_process_step_window = 16;

/// Options of a replica group.
struct replica_group_options {
  std::uint32_t replicas = 1; ///< Number of replicas of the job.
  int threads = 1;            ///< Threads for the ops of each replica.
  /// Timeout of one step and of each wait in a step.
  std::chrono::milliseconds step_timeout{60'000};
  /// Time for which a waiting replica polls before it blocks. Zero: it blocks
  /// at once. Negative: automatic, which is 50 us in a job of one process and
  /// 2 ms in a job of several processes. If the host runs more replicas than it
  /// has cores, the value is zero in one process and 200 us in several.
  std::chrono::microseconds spin_timeout{-1};
  /// Actors that add up the sums: the replicas or reducer actors. Automatic:
  /// reducer actors if the threads of all replicas leave cores free, else the
  /// replicas.
  enum class reducer_kind {
    automatic,
    replica_threads,
    reducer_actors
  } reducers = reducer_kind::automatic;
  std::uint64_t seed = 0; ///< Seed of random ops (context.hpp).
  /// Number of steps that a replica may run ahead of the last commit. Zero: the
  /// default, which depends on whether the job has several processes.
  std::uint64_t step_window = 0;
  /// Algorithm of sums between processes.
  collective_options::algorithm_kind algorithm =
    collective_options::algorithm_kind::tree;
  /// Receives the events of the group. Null: no events are recorded.
  std::shared_ptr<flight_recorder> recorder{};
};

/// Checks the options.
/// @errors throws std::invalid_argument that names the option, its value and
///         the permitted values.
void check(const replica_group_options& options);

/// Sets the context of a replica's ops for a step: no tape, the index of its
/// gradient buffers, and the state of random ops.
void prepare(context& target, const replica_group_options& options,
             std::uint32_t replica, std::uint64_t step);
/// Sets all fields of a replica's step context at the start of a step, and
/// clears its metrics.
void prepare(step_context& target, const replica_group_options& options,
             std::uint32_t replica, std::uint64_t step,
             std::uint64_t generation);

/// Counts generations (attempts to run steps). A run that continues the last
/// completed run belongs to the generation of that run. Any other run begins a
/// new generation, so that its steps are never confused with abandoned steps of
/// the same numbers.
class generation_counter {
public:
  /// Begins a run. @returns the generation of the run; the first one is 1.
  std::uint64_t begin_run(std::uint64_t first_step);
  /// Completes the run. @param next_step the first step that was not run.
  void complete_run(std::uint64_t next_step);

private:
  std::uint64_t generation_ = 0;
  std::uint64_t next_step_ = 0;
  bool completed_ = true; ///< True if the last run completed.
};

} // namespace troupe
