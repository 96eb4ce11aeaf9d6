#pragma once

#include "troupe/strategies/tree/call_order.hpp"
#include "troupe/strategies/tree/reduction.hpp"

#include <vector>

namespace troupe::tree {

/// A replica's side of the sums and gathers of its current step.
class participant {
public:
  participant(std::uint32_t replica, std::uint32_t replicas);

  /// Begins a step and discards the state of older steps.
  void begin_step(std::uint64_t generation, std::uint64_t step);

  /// Contributes a tensor to a sum.
  /// @param slices number of reducers that share the bucket.
  /// @returns the output tensor: a new one if this is replica 0 and there are
  ///          several reducers, else an empty handle.
  /// @errors throws std::logic_error if this replica already contributed to the
  ///         bucket.
  tensor contribute(std::uint32_t bucket, const tensor& input,
                    std::uint32_t slices,
                    const collective_options& options = {});

  /// Stores a slice of a sum. Ignores messages of other steps and repeated
  /// messages. Returns true if the slice completes the sum.
  bool on(const reduced_slice& result, const tensor& output);

  /// Returns the sum of a bucket. Empty handle: the sum is incomplete.
  /// @errors throws std::logic_error if this replica did not contribute to the
  ///         bucket.
  const tensor& sum_of(std::uint32_t bucket) const;

  /// True if all sums that the replica contributed to are complete.
  bool is_drained() const { return incomplete_ == 0; }
  /// Returns the first bucket whose sum is incomplete. @pre `!is_drained()`.
  std::uint32_t first_incomplete() const;

  /// Contributes this replica's tensor to a gather.
  /// @errors throws std::logic_error if this replica already contributed to the
  ///         gather.
  void gather(std::uint32_t bucket, const tensor& input,
              const collective_options& options = {});

  /// Number of collectives that this replica has called in the current step.
  std::uint32_t calls() const { return order_.size(); }
  /// Says how a gather of another replica differs from this replica's call at
  /// the same place of the step. None: no difference was found in this
  /// generation.
  const std::optional<std::string>& difference() const {
    return order_.difference();
  }

  /// Stores the tensor of another replica for a gather. The tensor may belong
  /// to a later step, because the sender may be ahead by the step window.
  /// @returns true if the tensor completes a gather of the current step.
  bool on(const gather_contribution& message, const tensor& input);

  /// Returns all tensors of a gather by replica id. Null while some are
  /// missing.
  const tensors* gathered(std::uint32_t bucket) const;
  /// Returns the replicas whose tensors are missing in a gather of the current
  /// step.
  std::vector<std::uint32_t> missing_in_gather(std::uint32_t bucket) const;

private:
  struct pending_reduce {
    std::uint32_t bucket = 0;
    std::uint32_t slices = 1;
    std::uint64_t arrived = 0; ///< Bit i: slice i has arrived.
    std::uint32_t count = 0;
    /// The sum of the whole bucket. The message of each slice carries this
    /// tensor.
    tensor output;
    bool done = false;
  };
  struct pending_gather {
    std::uint64_t step = 0;
    std::uint32_t bucket = 0;
    std::uint32_t count = 0;
    tensors inputs;
  };
  pending_reduce* find(std::uint32_t bucket);
  pending_gather& gather_of(std::uint64_t step, std::uint32_t bucket);
  const pending_gather* find_gather(std::uint32_t bucket) const;
  bool add(pending_gather& pending, std::uint32_t replica, const tensor& input);

  std::uint32_t replica_, replicas_;
  std::uint64_t generation_ = 0, step_ = 0;
  pooled<pending_reduce> pending_reduces_;
  pooled<pending_gather> pending_gathers_;
  /// Number of sums that this replica contributed to and that are incomplete.
  std::uint32_t incomplete_ = 0;
  call_order order_;
};

} // namespace troupe::tree
