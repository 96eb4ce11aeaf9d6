#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/strategies/step_commit/step_report.hpp"
#include "troupe/tensors/tensor.hpp"

#include <chrono>
#include <cstdint>
#include <functional>

// What a step function is given, and what a run of it is asked with: no CAF
// here.

namespace troupe {

/// A replica's side of one step: what a step function may ask of the others. It
/// is used on the fiber that the step runs on; whatever waits parks the fiber
/// and throws `superseded` if the step is abandoned meanwhile.
class step_context {
public:
  virtual ~step_context() = default;

  std::uint32_t replica = 0;  ///< Logical id, for life, in [0, replicas).
  std::uint32_t replicas = 1; ///< Of the job, for life.
  std::uint64_t step = 0;     ///< Global, from 0.
  std::uint64_t epoch = 0;    ///< Of the membership.
  step_report report;         ///< Filled in by the step function.

  /// Of the sums and gathers from here on: the crew's when a step begins. All
  /// replicas set the same. A timeout is of each wait that begins under it; one
  /// longer than the patience changes nothing.
  terms said;

  /// This replica's part of a bucket is complete: its sum may begin. Returns at
  /// once. The part must not change until the step ends; it is never written.
  /// @param bucket any number that the replicas agree on, once a step.
  virtual void contribute(std::uint32_t bucket, const tensor& part) = 0;

  /// The same of a part that its sum may take the place of, which saves the
  /// memory of one.
  virtual void give(std::uint32_t bucket, const tensor& part) {
    contribute(bucket, part);
  }

  /// Waits for the sum of a bucket that was contributed to: over all replicas,
  /// in the order of the canonical tree, the same elements for all; read-only.
  virtual tensor sum(std::uint32_t bucket) = 0;

  /// Brings a part and waits for those of all, in order of replica id.
  virtual tensors gather(std::uint32_t bucket, const tensor& part) = 0;

  /// From here on the step is not undone: all sums are in, the update begins.
  virtual void begin_update() = 0;
};

/// Thrown out of a wait when the step is abandoned, and again out of every
/// later wait of that step. Not an error: let it pass.
struct superseded {};

/// One step of one replica. Shared by all replicas, called from their threads.
/// An exception other than `superseded` ends the work with ec::invalid and the
/// exception's text.
using step_function = std::function<void(step_context&)>;

struct work {
  std::uint64_t first_step = 0;
  std::uint64_t steps = 1;
  step_function step;
  /// Called for each committed step, in order, on the thread that called `run`.
  std::function<void(const commit_record&)> on_commit;
  /// Longest that the processes that have called `run` wait for the others to
  /// call it, and then for the next commit beside the usual. The patience is
  /// the least.
  std::chrono::milliseconds join_timeout{0};
};

} // namespace troupe
