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
///            before all have called it, so an abort before changes nothing.
///            All replicas use the learning rate of replica 0
///   pass     each replica calls `apply`. It claims slices one by one, adds the
///            R gradients of a slice in tree order (strategies/tree/fold.hpp)
///            and applies the update rule to the slice. No sum is stored
///   end      each replica calls `wait_for_end`. Then all parameters are new
///   abort    a replica that has begun the pass cannot be interrupted and
///            claims what is left. So the update is made as a whole, or not
///   cost     the pass reads every gradient once, and reads and writes every
///            parameter and slot once; two barriers. `has_finite_sums` also
///            reads the replica's own gradient. If an element is large, each
///            replica reads all gradients once more, on one thread. No call
///            allocates memory from the system
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

  /// What all replicas agree on before the pass; equal on all replicas.
  struct agreement {
    bool is_finite = false; ///< The sums of the gradients are finite.
    float learning_rate = 0;
  };
  /// Waits for the gradients of all replicas, and begins the update.
  /// @param learning_rate of this replica; that of replica 0 is used.
  agreement wait_for_gradients(step_context& step, gradient_state own,
                               float learning_rate);

  /// Updates the slices that this replica claims.
  /// @pre `wait_for_gradients` has returned that the sums are finite.
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
