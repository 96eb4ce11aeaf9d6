#pragma once

#include "troupe/strategies/tree/reduction.hpp"

#include <optional>
#include <vector>

namespace troupe::tree {

/// All slices that one actor adds: a reducer, or a replica. A slice of a bucket
/// is at one step at a time, because no replica ends a step before its sums are
/// complete.
class slice_reducers {
public:
  explicit slice_reducers(std::uint32_t replicas) : replicas_{replicas} {}

  /// Accepts a contribution. One of a newer step or generation starts that
  /// step; one of an older step is ignored. Never returns `finished`: call
  /// `reduce_some`.
  /// @errors a protocol error if a step of a slice starts before its previous
  ///         step of the same generation ended, or if replicas divide a bucket
  ///         into different numbers of slices.
  reaction on(const contribution& message, const tensor& data,
              const tensor& output);

  /// Begins a generation and discards the state of older ones.
  void begin_generation(std::uint64_t generation);

  /// True if `reduce_some` has work to do.
  bool busy() const { return ready_ > 0; }

  struct reduced {
    slice_spec spec;
    tensor sum;
  };
  /// Adds at most `max_elements` elements of one slice; slices of `bucket` come
  /// first.
  /// @returns the sum if that completes the slice.
  std::optional<reduced> reduce_some(std::size_t max_elements,
                                     std::uint32_t bucket = 0);

  struct missing_inputs {
    std::uint32_t bucket = 0;
    std::vector<std::uint32_t> replicas; ///< Replicas, ascending.
  };
  /// @returns the first bucket of a step whose contributions are incomplete.
  ///          Empty: none.
  std::optional<missing_inputs> missing(std::uint64_t step) const;

private:
  struct slice {
    reduction reduction_state;
    bool done = false; ///< The slice's step is complete.
    tensor sum;        ///< Result for one replica, which needs no addition.
  };
  slice& slice_of(const slice_key& key);
  const slice_spec* differently_sliced(const slice_key& key) const;

  std::uint32_t replicas_;
  std::uint64_t generation_ = 0;
  pooled<slice> slices_;
  std::uint32_t ready_ = 0; ///< Number of slices with elements to add.
};

} // namespace troupe::tree
