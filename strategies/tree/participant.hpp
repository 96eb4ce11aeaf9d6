#pragma once

#include "troupe/strategies/tree/reduction.hpp"

#include <vector>

namespace troupe::tree {

/// A replica's side of the sums and gathers of the step that it is in.
class member {
public:
  member(std::uint32_t replica, std::uint32_t replicas);

  /// Enters a step: what belongs to older ones is let go.
  void open(std::uint64_t epoch, std::uint64_t step);

  /// Brings a part of a sum.
  /// @param slices how many adders share the bucket.
  /// @returns the room for the sum: a new tensor if this is replica 0 and there
  ///          are several adders, else none.
  /// @errors throws std::logic_error if the bucket was contributed to already.
  tensor contribute(std::uint32_t bucket, const tensor& part,
                    std::uint32_t slices);

  /// @returns whether that completes a sum; what is not of this step, or said
  ///          twice, changes nothing.
  bool on(const sum& x, const tensor& whole);

  /// The sum, or none while it is incomplete.
  /// @errors throws std::logic_error if this replica did not contribute to it.
  const tensor& sum_of(std::uint32_t bucket) const;

  /// Whether all sums that were contributed to are complete.
  bool settled() const { return open_ == 0; }
  /// The first bucket whose sum is incomplete. @pre `!settled()`.
  std::uint32_t unsettled() const;

  /// Brings this replica's part of a gather.
  /// @errors throws std::logic_error if it did already.
  void gather(std::uint32_t bucket, const tensor& part);

  /// May be of a step yet to come: others may be ahead by the lease.
  /// @returns whether that completes a gather of this step.
  bool on(const share& x, const tensor& part);

  /// All parts of a gather, or null while some are missing.
  const tensors* gathered(std::uint32_t bucket) const;
  std::vector<std::uint32_t> missing_in_gather(std::uint32_t bucket) const;

private:
  struct bucket_state {
    std::uint32_t number = 0;
    std::uint32_t slices = 1;
    std::uint64_t arrived = 0; ///< Bit i: slice i.
    std::uint32_t count = 0;
    tensor whole; ///< Of the last slice; all slices fill the same.
    bool done = false;
  };
  struct collection {
    std::uint64_t step = 0;
    std::uint32_t number = 0;
    std::uint32_t count = 0;
    tensors parts;
  };
  bucket_state* find(std::uint32_t bucket);
  collection& collected(std::uint64_t step, std::uint32_t bucket);
  const collection* find_collection(std::uint32_t bucket) const;
  bool add(collection& to, std::uint32_t from, const tensor& part);

  std::uint32_t replica_, replicas_;
  std::uint64_t epoch_ = 0, step_ = 0;
  pooled<bucket_state> buckets_;
  pooled<collection> collections_;
  std::uint32_t open_ = 0; ///< Buckets contributed to and incomplete.
};

} // namespace troupe::tree
