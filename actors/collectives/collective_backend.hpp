#pragma once

#include "troupe/actors/collectives/tensor_message.hpp"
#include "troupe/strategies/collective/packet.hpp"
#include "troupe/strategies/step_commit/state_machine.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// One replica's access to the all-reduces ("sums") and all-gathers ("gathers")
/// among all replicas of a job. Implementations are `sequential_backend`,
/// `local_backend`, `lane_replica_backend`, `nccl_backend` and
/// `device_sum_backend`. The replica makes all calls on its thread.
class collective_backend {
public:
  virtual ~collective_backend() = default;

  // -- generations and steps --------------------------------------------------

  /// Begins a generation. The replica has left all steps of older ones, whose
  /// collectives are abandoned.
  virtual void begin_generation(std::uint64_t generation) = 0;
  /// Begins a step. @pre `step` is higher than the last step of this
  /// generation.
  virtual void begin_step(std::uint64_t step) = 0;
  /// Ends the step. If its collectives have not drained, they are abandoned.
  virtual void end_step() = 0;
  /// True while the collectives of the step are valid. They are invalid once
  /// another replica of this process has left the step early or has begun a
  /// newer generation.
  virtual bool is_current() const { return true; }

  // -- contributions ----------------------------------------------------------

  /// True: a sum may be that of tensors on the device of the replica, and is
  /// then on that device. False: all tensors are on the host.
  virtual bool takes_device_tensors() const { return false; }

  /// Contributes to the sum of a bucket. Does not wait for other replicas. The
  /// next `wait` reports a failure that the call finds.
  /// @param output whether the sum may overwrite `contribution`.
  /// @errors throws std::logic_error if this replica has already contributed to
  ///         the bucket in this step. If another replica of this process
  ///         contributed a tensor of another shape, a backend either throws
  ///         std::logic_error or fails.
  virtual void contribute(std::uint32_t bucket, const tensor& contribution,
                          const collective_options& options,
                          collective::output_placement output) = 0;
  /// Contributes a copy of a tensor to a gather. Does not wait for other
  /// replicas.
  /// @errors throws std::logic_error if this replica has already contributed to
  ///         the gather in this step.
  virtual void gather(std::uint32_t bucket, const tensor& contribution,
                      const collective_options& options) = 0;

  // -- waiting ----------------------------------------------------------------

  /// A condition that the replica waits for.
  struct wait_condition {
    enum class kind {
      sum,      ///< The sum of the bucket is complete.
      gather,   ///< The gather of the bucket is complete.
      complete, ///< All collectives of the step are complete.
      /// All of them are complete, and no other process still needs a packet or
      /// a buffer of this replica.
      drained
    } event = kind::drained;
    std::uint32_t bucket = 0; ///< Bucket of a sum or a gather.
    bool is_barrier = false;  ///< The gather is the barrier of an update.
  };
  /// Returns the activity of a replica that waits for a condition.
  static activity activity_of(const wait_condition& condition) {
    if (condition.event != wait_condition::kind::gather)
      return activity::all_reduce;
    return condition.is_barrier ? activity::update : activity::all_gather;
  }
  /// Result of a wait. `pending`: the condition does not hold yet. `failed`:
  /// the condition does not hold, and `last_failure()` says why it may never
  /// hold.
  enum class wait_status { ready, pending, failed };

  /// Makes progress until the condition holds or nothing can be done.
  /// @param blocking false: returns at once if the condition does not hold.
  ///        True: may block the thread for a few milliseconds.
  /// @errors throws std::logic_error if `condition` is a sum that this replica
  ///         did not contribute to.
  virtual wait_status wait(const wait_condition& condition, bool blocking) = 0;

  /// True: after a blocking `wait` has returned `pending`, or `park` true, the
  /// backend sends the replica a `wake` message when there is something to do.
  /// False: the replica calls `wait` again by itself, after it has read its
  /// mailbox.
  virtual bool wakes() const = 0;

  /// Why collectives cannot complete.
  struct failure {
    ec code = ec::protocol;
    /// How the lane of the peer ended, or which rule was violated.
    std::string cause;
    /// The process that failed. Nullopt: the failure is in this process.
    std::optional<std::uint32_t> peer{};
    /// Set if only the path to a process has ended. The process may be alive,
    /// and collectives that need nothing more from it still complete.
    std::optional<step_commit::suspicion> suspect{};
  };
  /// Returns the failure, if any. `wait` or `serve` has found it.
  virtual std::optional<failure> last_failure() = 0;

  // -- results ----------------------------------------------------------------

  /// Returns the sum of a bucket, or an empty handle while it is incomplete.
  /// @errors throws std::logic_error if this replica did not contribute to the
  ///         bucket in this step.
  virtual tensor sum_of(std::uint32_t bucket) = 0;
  /// Returns the tensors of a gather in order of replica id. The result is
  /// empty while some are missing.
  virtual tensors gathered(std::uint32_t bucket) = 0;
  /// Returns the bucket of the first incomplete collective of the step, if any.
  virtual std::optional<std::uint32_t> first_incomplete() = 0;
  /// Returns the replicas that the collectives of a step wait for, as far as
  /// this replica can tell. Such a replica has not sent its contribution, or
  /// has not accepted packets of this process.
  /// @param condition that this replica waits for, if it waits in this step.
  virtual std::vector<std::uint32_t>
  missing(std::uint64_t step,
          const std::optional<wait_condition>& condition) = 0;

  // -- work for other replicas ------------------------------------------------

  /// Outside a step: handles messages of other replicas and works for them, as
  /// long as there is something to do.
  /// @returns false if a message violated the protocol: see `last_failure`.
  virtual bool serve() { return true; }
  /// Ends the work for other replicas until the next `wake` message.
  /// @returns false if there is something to do: call `serve` again.
  virtual bool park() { return true; }
  /// Handles a message that came through the replica's mailbox.
  virtual void deliver(tensor_message&&) {}
};

} // namespace troupe
