#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/strategies/step_commit/step_report.hpp"
#include "troupe/tensors/tensor.hpp"

#include <chrono>
#include <cstdint>
#include <functional>

// The interface of a step function and the request to run one. This header
// includes no CAF.

namespace troupe {

/// A replica's view of one step, with the collectives that a step function may
/// call. It is used on the fiber that runs the step. A call that waits parks
/// the fiber and throws `superseded` if the step is abandoned while it waits.
class step_context {
public:
  virtual ~step_context() = default;

  /// Id of this replica, in [0, replicas). It never changes.
  std::uint32_t replica = 0;
  /// Number of replicas of the job. It never changes.
  std::uint32_t replicas = 1;
  /// Number of the step in the job, from 0.
  std::uint64_t step = 0;
  /// Number of the attempt to run steps (the generation), from 1. It grows with
  /// every run that does not continue the last one.
  std::uint64_t generation = 0;
  /// Metrics of this step, filled in by the step function.
  step_metrics report;

  /// Options of the following sums and gathers; the options of the group when a
  /// step begins. All replicas set equal ones. The timeout applies to each wait
  /// that begins under it. A timeout longer than the step timeout of the group
  /// has no effect.
  collective_options options;

  /// Contributes to the sum of a bucket over all replicas. Returns without
  /// waiting for other replicas. `contribution` must not change until the step
  /// ends; it is never written.
  /// @param bucket any number that the replicas agree on, at most once a step.
  virtual void contribute(std::uint32_t bucket, const tensor& contribution) = 0;

  /// Contributes to the sum of a bucket, which may overwrite `contribution`.
  /// That saves the memory of one tensor.
  virtual void contribute_in_place(std::uint32_t bucket,
                                   const tensor& contribution) {
    contribute(bucket, contribution);
  }

  /// Waits for the sum of a bucket over all replicas.
  /// @returns the sum in the order of the canonical tree, equal in all bits for
  ///          all replicas. It is read-only.
  /// @errors throws std::logic_error if this replica did not contribute to the
  ///         bucket in this step.
  virtual tensor sum(std::uint32_t bucket) = 0;

  /// Contributes a tensor to a gather and waits for the tensors of all
  /// replicas.
  /// @returns the tensors in order of replica id.
  virtual tensors gather(std::uint32_t bucket, const tensor& contribution) = 0;

  /// Begins the update. From here on the step cannot be undone.
  /// @errors throws std::logic_error if a sum that this replica contributed to
  ///         is incomplete.
  virtual void begin_update() = 0;
};

/// Thrown by a wait when the step is abandoned, and again by every later wait
/// of that step. It is not an error: do not handle it.
struct superseded {};

/// Computes one step of one replica. All replicas share the function and call
/// it on their threads. An exception other than `superseded` aborts the run
/// with ec::invalid and the text of the exception.
using step_function = std::function<void(step_context&)>;

/// A request to run steps.
struct run_request {
  std::uint64_t first_step = 0; ///< Number of the first step in the job.
  std::uint64_t steps = 1;      ///< Number of steps.
  step_function step;
  /// Called for each committed step, in order, on the thread that called `run`.
  /// Empty: none.
  std::function<void(const commit_record&)> on_commit;
  /// Timeout of waiting until all processes have called `run`; at least the
  /// step timeout of the group. Waiting for a commit may take this time in
  /// addition to the step timeout.
  std::chrono::milliseconds join_timeout{0};
};

} // namespace troupe
