#pragma once

#include "troupe/strategies/collective/operation.hpp"

#include <array>
#include <optional>
#include <vector>

namespace troupe::collective {

/// The collectives that the replicas of one process have called, in order. The
/// log checks the arguments of the calls, and numbers the operations of a
/// generation from 0. It knows which operations have started and are complete.
///
///   call      the k-th call of each replica in a generation belongs to
///             operation k. The first replica to call it defines the operation;
///             the calls of the others must be equal
///   ready     all local replicas have called the operation; then it can start
///   complete  the operation has started and has no item left (`complete_item`)
///   trim      removes operations that no replica and no queue needs any more
class operation_log {
public:
  /// @param placed must outlive the log.
  explicit operation_log(const local_placement& placed);

  // -- generations and steps --------------------------------------------------

  std::uint64_t generation() const { return generation_; }
  /// Removes all operations, and begins to number from 0.
  void start_generation(std::uint64_t generation);
  /// Notes that a replica takes part in a generation.
  void join_generation(std::uint32_t replica, std::uint64_t generation);
  /// Releases the contributions of all operations. Until the next generation no
  /// replica is current.
  void abort();
  bool is_aborted() const { return aborted_; }
  /// True if the replica has joined the current generation, and the generation
  /// was not aborted.
  bool is_current(std::uint32_t replica) const;

  void begin_step(std::uint32_t replica, std::uint64_t step);
  void end_step(std::uint32_t replica);

  // -- calls ------------------------------------------------------------------

  /// Notes the call of a sum. @pre the replica is current.
  /// @errors throws std::logic_error as `state_machine::contribute`.
  void contribute(std::uint32_t replica, std::uint32_t bucket,
                  const tensor& input, const collective_options& options,
                  output_placement result_placement);

  /// Returns the spec of the tensor that `first_contributor` passed.
  tensor_spec first_spec(const operation& op) const;

  /// Notes the call of a gather, and copies the tensor. @pre the replica is
  /// current.
  /// @errors throws std::logic_error as `state_machine::gather`.
  void gather(std::uint32_t replica, std::uint32_t bucket, const tensor& input,
              const collective_options& options);

  /// Returns the number of operations that the replica has called in its
  /// generation.
  std::uint64_t calls_of(std::uint32_t replica) const {
    return state_of(replica).next;
  }
  /// Returns the local replicas that have not called an operation, ascending.
  std::vector<std::uint32_t> replicas_without(std::uint64_t number) const;

  // -- progress ---------------------------------------------------------------

  /// Returns the next operation that is ready but has not started. Null: none.
  operation* next_ready();
  /// Notes that the operation of `next_ready` has started.
  /// @pre its `remaining` is set.
  void mark_started();
  /// Notes that a chunk, gathered tensor or other item of `remaining` is
  /// complete.
  void complete_item(operation& op);

  /// Number of operations that have completed in all generations.
  std::uint64_t completed() const { return completed_; }
  /// Operations [0, started()) have started.
  std::uint64_t started() const { return started_; }
  /// All operations before this one are complete.
  std::uint64_t first_incomplete() const { return first_incomplete_; }
  /// Operations [0, end()) were called by at least one replica.
  std::uint64_t end() const { return base_ + operations_.size(); }

  /// @pre the operation was called in this generation and was not trimmed.
  operation& operator[](std::uint64_t number) {
    return operations_[number - base_];
  }
  const operation& operator[](std::uint64_t number) const {
    return operations_[number - base_];
  }

  // -- results ----------------------------------------------------------------

  /// Returns the sum. Empty handle: the sum is incomplete, or the replica is
  /// not current.
  /// @errors throws std::logic_error if the replica did not contribute to the
  ///         bucket in this step.
  tensor sum_of(std::uint32_t replica, std::uint32_t bucket) const;

  /// Returns the gathered tensors by replica id. Empty: a tensor is missing, or
  /// the replica is not current.
  tensors gathered(std::uint32_t replica, std::uint32_t bucket) const;

  // -- lifetime of tensors ----------------------------------------------------

  /// Removes the complete operations before `first_needed` whose step has ended
  /// for all local replicas.
  void trim(std::uint64_t first_needed);
  /// Notes that peers may read tensors of operations. Until
  /// `release_zero_copy`, tensors of removed operations are kept.
  void note_zero_copy() { zero_copy_pending_ = true; }
  void release_zero_copy();

private:
  struct replica_state {
    std::uint64_t generation = 0, step = 0;
    /// Number of the replica's first operation in the step.
    std::uint64_t first = 0;
    /// Number of the operation that the replica calls next.
    std::uint64_t next = 0;
    /// Highest bucket number and highest gather number that the replica used in
    /// the step. -1: none.
    std::array<std::int64_t, 2> highest{-1, -1};
  };

  replica_state& state_of(std::uint32_t replica) {
    return replicas_[placement_.job.index_of(replica)];
  }
  const replica_state& state_of(std::uint32_t replica) const {
    return replicas_[placement_.job.index_of(replica)];
  }
  operation& next_operation(std::uint32_t replica, packet_kind kind,
                            std::uint32_t bucket, const tensor& input,
                            const collective_options& options);
  const operation* find(const replica_state& m, packet_kind kind,
                        std::uint32_t bucket) const;
  void complete_operation();
  void release_inputs(operation& op);

  const local_placement& placement_;
  std::uint64_t generation_ = 0;
  bool aborted_ = false;
  pooled<replica_state> replicas_; ///< By position in the local placement.
  pooled<operation> operations_;
  std::uint64_t base_ = 0; ///< Number of the first operation in `operations_`.
  std::uint64_t started_ = 0;
  std::uint64_t first_incomplete_ = 0;
  std::uint64_t completed_ = 0;
  /// Peers may still read tensors of this process.
  bool zero_copy_pending_ = false;
  /// Tensors that no operation needs any more, but that peers may still read.
  tensors zero_copy_tensors_;
};

} // namespace troupe::collective
