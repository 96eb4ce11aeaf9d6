#pragma once

#include "troupe/strategies/tree/reduction.hpp"

#include <optional>
#include <vector>

namespace troupe::tree {

/// The slices that one actor, a reducer or a replica, adds. Each slice holds
/// the contributions of one step at a time, because no replica ends a step
/// before the sums of the step are complete.
class slice_reducers {
public:
  explicit slice_reducers(std::uint32_t replicas) : replicas_{replicas} {}

  /// Accepts a contribution. A contribution of a newer step or generation
  /// starts that step; a contribution of an older step is ignored. Never
  /// returns `finished`, because `reduce_some` returns the sums.
  /// @errors returns a protocol error for a contribution of a newer step, while
  ///         the current step of its slice in the same generation is
  ///         incomplete. Returns one also if replicas divide a bucket into
  ///         different numbers of slices.
  reaction on(const contribution& message, const tensor& data,
              const tensor& output);

  /// Begins a generation and discards the state of older generations.
  void begin_generation(std::uint64_t generation);

  /// True if `reduce_some` has work to do.
  bool busy() const { return ready_ > 0; }

  struct reduced {
    slice_spec spec;
    tensor sum;
  };
  /// Adds at most `max_elements` elements of one slice. Slices of `bucket` are
  /// added before all others.
  /// @returns the sum if the slice is complete now. Empty: it is not.
  std::optional<reduced> reduce_some(std::size_t max_elements,
                                     std::uint32_t bucket = 0);

  struct missing_inputs {
    std::uint32_t bucket = 0;
    std::vector<std::uint32_t> replicas; ///< Missing replicas, ascending.
  };
  /// Returns the first bucket that lacks contributions in a step, and the
  /// replicas that have not contributed to it. Empty: none.
  std::optional<missing_inputs> missing(std::uint64_t step) const;

private:
  struct slice {
    reduction reduction_state;
    /// True: `reduce_some` has returned the sum of the slice's current step. A
    /// contribution of a newer step makes it false.
    bool done = false;
    /// Sum that `reduce_some` has not yet returned. If there is one replica, it
    /// is that replica's contribution. Empty: there is no such sum.
    tensor sum;
  };
  slice& slice_of(const slice_key& key);
  const slice_spec* differently_sliced(const slice_key& key) const;

  std::uint32_t replicas_;
  std::uint64_t generation_ = 0;
  pooled<slice> slices_;
  std::uint32_t ready_ = 0; ///< Number of slices that `reduce_some` can add.
};

} // namespace troupe::tree
