#pragma once

#include "troupe/actors/core/step.hpp"
#include "troupe/training/loop/exchange/table_update.hpp"
#include "troupe/training/loop/model/claimed_slices.hpp"
#include "troupe/training/loop/model/model_state.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// Updates the parameters that all replicas of a job share, on the CPU:
///
///   who      the R replicas of a job of one process
///   start    a replica has its gradient in `parameters::gradients(replica)`,
///            and calls `wait_for_gradients`. No replica writes a parameter
///            before all have called it, so an abort before changes nothing.
///            All replicas use the learning rate of replica 0
///   pass     each replica calls `apply`, and claims slices one by one. It adds
///            the gradients of a slice in tree order (strategies/tree/fold.hpp)
///            and updates it, in one pass; no sum is stored
///   end      each replica calls `wait_for_end`. Then all parameters are new
///   abort    a replica that has begun the pass cannot be interrupted and makes
///            what no other one has begun. So the update is made as a whole, or
///            not
///   cost     the pass reads every gradient once, and reads and writes every
///            parameter and slot once. `part_has_finite_sums` also reads the
///            replica's own gradient. If an element is large, each replica
///            reads all gradients once more, on one thread. Two barriers. No
///            call allocates memory from the system
///   order    the bits do not depend on which replica does what
class shared_update {
public:
  /// @param trained ranges of the flat buffer that the update changes.
  /// @param tables numbers of the parameters of which it changes rows.
  /// @pre the replicas share one copy of the parameters, which is on the CPU.
  shared_update(model_state& model, std::vector<element_range> trained,
                std::vector<std::size_t> tables = {});
  shared_update(const shared_update&) = delete;
  shared_update& operator=(const shared_update&) = delete;

  /// Checks the gradient of one parameter when it is complete, while it is in
  /// the cache. If this is true for all parameters of a replica, the sums of
  /// any R gradients with elements like these are finite.
  bool part_has_finite_sums(const tensor& gradient,
                            const element_range& part) const;

  /// What a replica says about its gradient. The values are sent.
  enum class gradient_state : std::uint64_t {
    finite_sums, ///< The sums of gradients like this one are finite.
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

  /// Does what this replica claims of the update.
  /// @pre `wait_for_gradients` has returned that the sums are finite.
  void apply(const rule_step& update) noexcept;

  /// The update of the tables, which a replica also applies. Null: there are no
  /// tables.
  table_update* tables() { return tables_.get(); }
  /// Checks the rows of a replica. True: the sums over rows like these are
  /// finite.
  bool tables_have_finite_sums(std::uint32_t replica) const {
    return !tables_ || tables_->are_rows_below(replica, max_element());
  }

  /// Waits until all replicas have returned from `apply`. Must follow
  /// `wait_for_gradients` in each step.
  void wait_for_end(step_context& step);

private:
  /// Maximum magnitude of an element whose sums over R gradients are finite.
  float max_element() const;
  /// Computes the sums only to check them; equal on all replicas.
  bool sums_are_finite();

  const std::vector<element_range> trained_;
  std::vector<tensor> gradients_; ///< By replica.
  const std::size_t slice_elements_;
  float* values_;
  std::array<float*, 2> slots_{};
  std::vector<const float*> sources_; ///< Elements of `gradients_`.
  claimed_slices slices_;
  std::unique_ptr<table_update> tables_;
};

} // namespace troupe
