#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/strategies/failure_report.hpp"
#include "troupe/strategies/step_commit/step_report.hpp"
#include "troupe/tensors/tensor.hpp"

#include <chrono>
#include <cstdint>
#include <functional>

// Interface between a step function and its replica, and the request to run
// steps. This header does not include CAF.

namespace troupe {

/// What a step function may use during one step of one replica, such as the
/// collectives. Only the step function may use it. A call that waits parks the
/// replica's fiber. If the step is abandoned during the wait, the call throws
/// `superseded`.
class step_context {
public:
  virtual ~step_context() = default;

  /// Id of this replica, in [0, replicas). It never changes.
  std::uint32_t replica = 0;
  /// Number of replicas of the job. It never changes.
  std::uint32_t replicas = 1;
  /// Number of the step in the job, from 0.
  std::uint64_t step = 0;
  /// Generation of the run: number of the attempt to run steps, from 1. It
  /// increases with each run that does not continue the last completed run.
  std::uint64_t generation = 0;
  /// Metrics of this step. The step function fills them in.
  step_metrics report;

  /// Options of the sums and gathers that the step function calls next. Each
  /// step begins with the group's options. All replicas must set equal options.
  /// The timeout applies to each wait that begins while it is set. A timeout
  /// longer than the group's step timeout has no effect.
  collective_options options;

  /// True: a sum may be that of tensors on the device of this replica. It is
  /// then on that device too, complete for later work of the device. It can
  /// change with the view of the job. False: all tensors are on the host.
  virtual bool takes_device_tensors() const { return false; }

  /// Contributes to the sum of a bucket over all replicas. Returns without
  /// waiting for other replicas. The caller must not change `contribution`
  /// until the step ends. The sum does not overwrite `contribution`.
  /// @param bucket number of the bucket, equal on all replicas. A replica
  ///               contributes to a bucket at most once per step.
  virtual void contribute(std::uint32_t bucket, const tensor& contribution) = 0;

  /// Contributes to the sum of a bucket as `contribute` does, but the sum may
  /// overwrite `contribution`. This saves the memory of one tensor.
  virtual void contribute_in_place(std::uint32_t bucket,
                                   const tensor& contribution) {
    contribute(bucket, contribution);
  }

  /// Waits for the sum of a bucket over all replicas.
  /// @returns the sum, equal in all bits on all replicas. The caller must not
  ///          change it. The tree algorithm adds in the order of the canonical
  ///          tree.
  /// @errors throws std::logic_error if this replica did not contribute to the
  ///         bucket in this step.
  virtual tensor sum(std::uint32_t bucket) = 0;

  /// Contributes a tensor to a gather and waits for the tensors of all
  /// replicas.
  /// @returns the tensors in order of replica id.
  virtual tensors gather(std::uint32_t bucket, const tensor& contribution) = 0;

  /// Waits until all replicas have called `barrier` with this number in this
  /// step. What a replica has written before its call is visible to all
  /// replicas of its process after theirs. If the wait fails, the report says
  /// that the replica waited for an update.
  /// @param number counts as the bucket of a gather.
  /// @param value  any value, for all replicas.
  /// @returns the values in order of replica id.
  virtual pooled<std::uint64_t> barrier(std::uint32_t number,
                                        std::uint64_t value) = 0;

  /// Announces that the step function now updates the model. From then on the
  /// step cannot be undone.
  /// @errors throws std::logic_error if a sum that this replica contributed to
  ///         is incomplete.
  virtual void begin_update() = 0;
};

/// Exception of a wait whose step is abandoned. Every later wait of the step
/// throws it again. It is not an error: do not catch it.
struct superseded {};

/// Computes one step of one replica. All replicas of a process call the same
/// function object, possibly at the same time. An exception other than
/// `superseded` aborts the run: see `replica_group::run`.
using step_function = std::function<void(step_context&)>;

/// A request to run steps.
struct run_request {
  std::uint64_t first_step = 0; ///< First step to run, numbered in the job.
  std::uint64_t steps = 1;      ///< Number of steps to run.
  step_function step;
  /// Called for each committed step, in order of steps, on the thread that
  /// called `run`. Empty: not called.
  std::function<void(const commit_record&)> on_commit;
  /// Timeout of the wait until all processes have called `run`. If it is
  /// shorter than the group's step timeout, the step timeout applies instead.
  /// `run` may wait this time in addition to the step timeout before it fails.
  std::chrono::milliseconds join_timeout{0};
  /// The call that the run belongs to, and the number that the first step has
  /// for the user. If the processes of the job request the run for different
  /// calls, it fails with an error that names two of them.
  requesting_call call{};
};

} // namespace troupe
