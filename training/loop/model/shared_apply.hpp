#pragma once

#include "troupe/tensors/parameter_gradient.hpp"
#include "troupe/tensors/variable.hpp"
#include "troupe/training/loop/model/claimed_slices.hpp"
#include "troupe/training/strategies/replica/replica_context.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// Makes `optimizer::apply` collective among the replicas of a job of one
/// process, which share one copy of the variables:
///
///   who      the R replicas of the job
///   start    each replica calls `wait_for_gradients`. No replica writes a
///            variable before all have called it. Gradients are compared only
///            if the replicas passed different tensors; then there is one more
///            barrier
///   pass     each replica calls `for_each_slice` and updates what it claims
///   end      each replica calls `wait_for_end`. Then all values are new
///   faults   other gradients, variables or another optimizer on some replica:
///            std::logic_error on all replicas, before any value is written
class shared_apply {
public:
  explicit shared_apply(std::uint32_t replicas) : calls_(replicas) {}

  /// Waits until all replicas have called this function, and compares what they
  /// passed.
  /// @pre the gradients are float32 and have the shapes of the variables.
  /// @errors throws std::logic_error on all replicas if a replica passed other
  ///         gradients or other variables than replica 0, or used another
  ///         object. The error names the replicas, and the first variable whose
  ///         gradients differ.
  void wait_for_gradients(replica_context& self,
                          std::span<const parameter_gradient> gradients,
                          std::span<const variable> variables);

  /// Calls `fn(index of variable, begin, end)` for the slices that this replica
  /// claims.
  /// @param ranges elements of each variable.
  /// @param elements number of elements of a slice; equal on all replicas.
  template <class F>
  void for_each_slice(std::span<const element_range> ranges,
                      std::size_t elements, const F& fn) {
    slices_.for_each(ranges, elements, fn);
  }

  /// Waits until all replicas have updated their slices.
  void wait_for_end(replica_context& self);

private:
  /// What a replica passed. Another replica may compare the gradients after the
  /// call of this replica was aborted, so the object owns them.
  struct call {
    parameter_gradients gradients;
    pooled<std::uint32_t> variables; ///< Ids.
  };

  bool is_same_storage() const;
  std::size_t first_difference(std::uint32_t replica) const;

  std::vector<call> calls_; ///< By replica.
  claimed_slices slices_;
};

} // namespace troupe
