#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/tensors/tensor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <variant>

/// Canonical tree sum: each of R replicas contributes a tensor of the same
/// shape and receives the elementwise sum. The bits of the sum are equal on
/// every replica, and do not depend on which role adds.
///
///   who      R replicas; one reducer per slice of the bucket: a reducer actor,
///            or a replica while it waits for the sum. The class `reduction` is
///            the side of the reducer
///   messages replica: contribution{key} with its tensor, by reference. If the
///            bucket has several slices, the contribution of replica 0 also
///            carries the output tensor
///            reducer: reduced_slice{key} with the sum
///   start    with a slice_spec, which names the step, bucket and slice
///   on contribution  keep the tensor handle. After the last contribution each
///            call of `reduce_some` adds some blocks of elements
///   end      when all elements of the slice are added
///   cost     R contributions are received; the owner of the reduction sends R
///            results. Every element is read once, the sum is written once;
///            R - 1 additions per element. Contributions are not written to;
///            the sum is one tensor from the pool. If R = 1, the sum is the
///            contribution itself
///   order    sum[a, b) = sum[a, a+k) + sum[a+k, b) over replica ids, where k
///            is the largest power of two below b - a. The order of arrival has
///            no effect
///   faults   older generation or step, or a repeated contribution -> ignored
///            newer generation or step, other bucket or slice, unknown replica,
///            other shape, dtype or options, not float32 or float64, no output
///            tensor -> protocol error
///            a replica is lost -> the sum does not complete; the owner
///            discards the sum and starts a new one in the next generation
namespace troupe::tree {

/// Identifies a contribution or a result.
struct slice_key {
  /// Number of an attempt to run steps. The chief increments it at each
  /// reconfiguration of the replicas.
  std::uint64_t generation = 0;
  /// Step number. Within a generation each step has a higher number than the
  /// step before.
  std::uint64_t step = 0;
  /// Number of the actor that carries out the replica, from 1. Always 1 in a
  /// job, because replicas are not respawned.
  std::uint32_t incarnation = 0;
  /// Replica that contributes. In a reduced slice: the replica that receives
  /// the slice.
  std::uint32_t replica = 0;
  std::uint32_t bucket = 0; ///< Index of the bucket.
  std::uint32_t slice = 0;  ///< Slice of the bucket, in [0, slices).
  std::uint32_t slices = 1; ///< Number of slices of the bucket.
  /// Options of the collective; equal in all contributions to a sum or gather.
  collective_options options{};
  /// Index of the collective within the step, from 0. Each replica increments
  /// it with each collective that it calls. Unused in a reduced slice.
  std::uint32_t sequence = 0;

  auto fields() {
    return std::tie(generation, step, incarnation, replica, bucket, slice,
                    slices, options, sequence);
  }
  friend bool operator==(const slice_key&, const slice_key&) = default;
};

/// A replica's tensor for a sum.
struct contribution {
  slice_key key;
  auto fields() { return std::tie(key); }
};

/// The complete sum of a slice, for one replica.
struct reduced_slice {
  slice_key key;
  auto fields() { return std::tie(key); }
};

/// A replica's tensor for a gather. The replica sends it to every other
/// replica; a gather has no reducer.
struct gather_contribution {
  slice_key key;
  auto fields() { return std::tie(key); }
};

/// Identifies the slice that a reducer adds.
struct slice_spec {
  std::uint64_t generation = 0; ///< Generation of the sum.
  std::uint64_t step = 0;       ///< Step of the sum.
  std::uint32_t bucket = 0;
  std::uint32_t replicas = 1; ///< Number of replicas, R >= 1.
  std::uint32_t slice = 0;
  std::uint32_t slices = 1;
};

/// Range of elements: [begin, end).
struct range {
  std::size_t begin = 0, end = 0;
};

/// Maximum number of reducers that share a bucket.
inline constexpr std::uint32_t max_slices = 64;

/// Minimum number of elements of a bucket that several reducers share. One
/// reducer adds a smaller bucket faster than two reducers, whose additional
/// messages take time.
inline constexpr std::size_t min_split_elements = 8192;

/// Returns the number of slices of a bucket if there are `reducers` reducers.
constexpr std::uint32_t slices_of(std::size_t elements,
                                  std::uint32_t reducers) {
  return elements < min_split_elements ? 1 : std::min(reducers, max_slices);
}

/// Returns the reducer that adds a slice.
constexpr std::uint32_t reducer_of(std::uint32_t bucket, std::uint32_t slice,
                                   std::uint32_t reducers) {
  return (bucket + slice) % reducers;
}

/// Returns the elements of a slice. Each slice begins at a multiple of 16
/// elements.
range range_of(std::size_t elements, std::uint32_t slice, std::uint32_t slices);

struct ignored {};
struct missing {}; ///< Some contributions have not arrived.
/// All contributions have arrived; `reduce_some` has work to do.
struct reducing {};
struct finished {
  /// Tensor of the whole bucket, in which this reducer has written its slice.
  tensor sum;
};
struct protocol_error {
  std::string reason;
};
using reaction =
  std::variant<ignored, missing, reducing, finished, protocol_error>;

class reduction {
public:
  reduction() = default;
  explicit reduction(const slice_spec& spec) { start(spec); }

  /// Starts another slice and discards the state of the previous slice.
  void start(const slice_spec& spec);

  /// Accepts a contribution.
  /// @param output tensor that receives the sum, with the spec of the
  ///               contribution. Empty: the reduction allocates a tensor, which
  ///               is possible only if the bucket has one slice.
  reaction on(const contribution& message, const tensor& data,
              const tensor& output = {});

  /// Adds the next elements of the slice in blocks of 1,024 elements (`block`
  /// of fold.hpp): as many blocks as fit `max_elements`, but at least one. The
  /// last block of a slice may be shorter.
  /// @returns reducing, finished, or missing if contributions are missing.
  reaction reduce_some(std::size_t max_elements);

  const slice_spec& spec() const { return spec_; }
  bool has(std::uint32_t replica) const {
    return bool(contributions_[replica]);
  }
  bool complete() const { return arrived_ == spec_.replicas; }

private:
  reaction check(const contribution& message, const tensor& data) const;

  slice_spec spec_;
  tensors contributions_; ///< By replica. Empty: not arrived.
  tensor sum_;
  collective_options options_; ///< Options of the first contribution.
  std::uint32_t arrived_ = 0;
  std::size_t next_ = 0; ///< The first element that is not added yet.
};

} // namespace troupe::tree
