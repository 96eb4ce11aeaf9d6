#pragma once

#include "troupe/strategies/tree/reduction.hpp"

#include <optional>
#include <vector>

namespace troupe::tree {

/// All sums that one host adds: a reducer, or a replica's own thread. A slice
/// of a bucket is at one step at a time, because no replica ends a step before
/// its sums are complete.
class adders {
public:
  explicit adders(std::uint32_t replicas) : replicas_{replicas} {}

  /// Takes a part; one of a newer step or epoch begins that, one of an older is
  /// ignored. Never `finished`: ask `work`.
  /// @errors a fault if a slice's newer step begins before its older one of the
  ///         same epoch ended, or if replicas cut a bucket differently: they
  ///         do not agree on their buckets.
  reaction on(const part& x, const tensor& data, const tensor& room);

  /// Lets go of all that is older.
  void open(std::uint64_t epoch);

  bool busy() const { return ready_ > 0; }

  struct done {
    seat at;
    tensor sum;
  };
  /// Adds at most so many elements of one slice, of `bucket` if that has any.
  /// @returns the sum if that ends it.
  std::optional<done> work(std::size_t max_elements, std::uint32_t bucket = 0);

  struct lack {
    std::uint32_t bucket = 0;
    std::vector<std::uint32_t> missing; ///< Replicas, ascending.
  };
  /// The first bucket of a step that misses a part; none if all are complete.
  std::optional<lack> lacking(std::uint64_t step) const;

private:
  struct slice {
    tree_sum machine;
    bool done = false; ///< The machine's step is over.
    tensor sum;        ///< Of one replica: complete at once.
  };
  slice& of(const stamp& at);
  const seat* otherwise_cut(const stamp& at) const;

  std::uint32_t replicas_;
  std::uint64_t epoch_ = 0;
  pooled<slice> slices_;
  std::uint32_t ready_ = 0; ///< Slices with something to add.
};

} // namespace troupe::tree
