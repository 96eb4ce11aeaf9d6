#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/tensors/tensor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <variant>

/// Canonical tree sum: each of R replicas contributes a tensor of one shape,
/// and each receives the elementwise sum, with equal bits on every replica,
/// independent of the reducer.
///
///   who      replica r of R; one reducer per slice of the bucket: a reducer
///            actor, or a replica that waits for the sum anyway. This is the
///            reducer
///   messages replica: contribution{key} with its tensor, by reference; that of
///            replica 0 also carries the output tensor if there are several
///            reducers
///            reducer: reduced_slice{key} with the sum
///   start    with a slice_spec: which slice of which bucket of which step
///   on contribution  keep the tensor handle. The last one starts the addition,
///            a block at a time, as often as `reduce_some` is called
///   end      when all elements of the slice are added
///   cost     R contributions in, R results out (one each, sent by the owner).
///            Reads every element once, writes the sum once; R - 1 additions
///            per element. Contributions are not written to; the sum is one
///            tensor from the pool. If R = 1, the sum is the contribution
///            itself
///   order    tree[a, b) = tree[a, a+k) + tree[a+k, b), where k is the largest
///            power of two below b - a, over replica ids, independent of
///            arrival
///   faults   older generation or step, or a repeated contribution -> ignored
///            newer generation or step, other bucket or slice, unknown replica,
///            other shape, dtype or options, not float32 or float64, no output
///            tensor -> protocol error
///            a replica is lost -> the sum does not complete; the owner
///            discards it and starts another one in the next generation
namespace troupe::tree {

using troupe::inspect, troupe::serialize;

/// Identifies a contribution or a result.
struct slice_key {
  /// Attempt to run steps; the chief increments it when it reconfigures the
  /// replicas.
  std::uint64_t generation = 0;
  std::uint64_t step = 0; ///< Step number, from 0; ascends within a generation.
  /// Number of the replica's actor among those with this id; always 1 in a
  /// job, because replicas are not respawned.
  std::uint32_t incarnation = 0;
  /// Contributing replica. In a reduced slice: the receiving replica.
  std::uint32_t replica = 0;
  std::uint32_t bucket = 0; ///< Index of the bucket.
  std::uint32_t slice = 0;  ///< Slice of the bucket, in [0, slices).
  std::uint32_t slices = 1; ///< Number of slices of the bucket.
  /// Options of the call; equal in all contributions.
  collective_options options{};

  auto fields() {
    return std::tie(generation, step, incarnation, replica, bucket, slice,
                    slices, options);
  }
  friend bool operator==(const slice_key&, const slice_key&) = default;
};

/// A replica's tensor for a sum.
struct contribution {
  slice_key key;
  auto fields() { return std::tie(key); }
};

/// A slice of the sum, complete.
struct reduced_slice {
  slice_key key;
  auto fields() { return std::tie(key); }
};

/// A replica's tensor for a gather. It is sent to every other replica; there is
/// no reducer.
struct gather_contribution {
  slice_key key;
  auto fields() { return std::tie(key); }
};

/// Identifies the slice that a reducer adds.
struct slice_spec {
  std::uint64_t generation = 0; ///< Generation of the sum.
  std::uint64_t step = 0;       ///< Step of the sum.
  std::uint32_t bucket = 0;
  std::uint32_t replicas = 1; ///< R >= 1.
  std::uint32_t slice = 0;
  std::uint32_t slices = 1;
};

/// Elements [begin, end).
struct range {
  std::size_t begin = 0, end = 0;
};

/// Maximum number of reducers that share a bucket.
inline constexpr std::uint32_t max_slices = 64;

/// Elements. Below this size one reducer is faster than two with their
/// messages.
inline constexpr std::size_t min_split_elements = 8192;

/// @returns the number of slices of a bucket that `reducers` reducers can
/// share.
constexpr std::uint32_t slices_of(std::size_t elements,
                                  std::uint32_t reducers) {
  return elements < min_split_elements ? 1 : std::min(reducers, max_slices);
}

/// @returns the reducer that adds a slice.
constexpr std::uint32_t reducer_of(std::uint32_t bucket, std::uint32_t slice,
                                   std::uint32_t reducers) {
  return (bucket + slice) % reducers;
}

/// @returns the elements of a slice. Slices begin at multiples of 16 elements.
range range_of(std::size_t elements, std::uint32_t slice, std::uint32_t slices);

struct ignored {};
struct missing {}; ///< More contributions are expected.
/// All contributions have arrived; `reduce_some` has work to do.
struct reducing {};
struct finished {
  tensor sum; ///< The whole bucket; only this slice of it is written.
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

  /// Starts another slice; the state of the previous one is discarded.
  void start(const slice_spec& spec);

  /// @param output output tensor with the spec of the contribution. Empty: a
  /// new
  ///             tensor is allocated, which is possible only if this is the
  ///             only slice.
  reaction on(const contribution& message, const tensor& data,
              const tensor& output = {});

  /// Adds at most `max_elements` more elements, at least one block.
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
  tensors contributions_; ///< By replica. Empty handle: not arrived.
  tensor sum_;
  collective_options options_; ///< Options of the first contribution.
  std::uint32_t arrived_ = 0;
  std::size_t next_ = 0; ///< Elements before it are added.
};

} // namespace troupe::tree
