#pragma once

#include "troupe/actors/core/step.hpp"
#include "troupe/training/loop/claimed_slices.hpp"
#include "troupe/training/loop/model_state.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Updates the parameters that all replicas of a job share, in one pass over
/// gradients, parameters and slots:
///
///   who      the R replicas of a job of one process
///   start    a replica has its gradient in `parameters::gradients(replica)`,
///            and calls `wait_for_gradients`. No replica writes a parameter
///            before all have called it, so an abort before changes nothing
///   pass     each replica calls `apply`. It claims slices one by one, adds the
///            R gradients of a slice in tree order (strategies/tree/fold.hpp)
///            and applies the update rule to the slice. No sum is stored
///   end      each replica calls `wait_for_end`. Then all parameters are new
///   abort    a replica that has begun the pass cannot be interrupted and
///            claims what is left. So the update is made as a whole, or not
///   cost     every gradient is read once; every parameter and slot is read and
///            written once; two barriers. No call allocates memory from the
///            system
///   order    the bits do not depend on which replica claims a slice
class shared_update {
public:
  /// @param trained ranges of the flat buffer that the update changes.
  /// @pre the replicas share one copy of the parameters.
  shared_update(model_state& model, std::vector<element_range> trained);

  /// Returns true if the sums of any R gradients with elements like these are
  /// finite. Replicas call it while the elements of a complete gradient are in
  /// the cache.
  bool has_finite_sums(const float* gradient, std::size_t n) const;

  /// What a replica says about its gradient. The values are sent.
  enum class gradient_state : std::uint64_t {
    finite_sums, ///< `has_finite_sums` was true for all elements.
    unknown,
    bad ///< The update must be skipped, for example because the loss is NaN.
  };

  /// Waits for the gradients of all replicas, and begins the update.
  /// @returns true if the sums of the gradients are finite; equal on all
  ///          replicas.
  bool wait_for_gradients(step_context& step, gradient_state own);

  /// Updates the slices that this replica claims.
  /// @pre `wait_for_gradients` has returned true on all replicas.
  void apply(const rule_step& update) noexcept;

  /// Waits until all replicas have updated their slices. Must follow
  /// `wait_for_gradients` in each step.
  void wait_for_end(step_context& step);

private:
  bool sums_are_finite() const;

  const std::vector<element_range> trained_;
  const std::size_t slice_elements_;
  float* values_;
  std::array<float*, 2> slots_{};
  std::vector<const float*> gradients_; ///< By replica.
  claimed_slices slices_;
};

} // namespace troupe
