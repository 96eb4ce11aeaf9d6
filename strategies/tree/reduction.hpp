#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/tensors/tensor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <variant>

/// The canonical tree sum: R replicas each bring a tensor of one shape; all
/// leave with the elementwise sum, the same bits on every replica, whoever
/// adds.
///
///   who      replica r of R; an adder per slice of the bucket: a reducer, or a
///            replica that waits for the sum anyway. This is the adder
///   says     a replica: part{at} with its tensor, by reference; replica 0's
///            brings the room for the sum if several adders fill it.
///            the adder: sum{at} with the sum
///   opens    with a seat: which slice of which bucket of which step
///   on part  keeps the handle; the last one makes it add, a block at a time,
///            as often as `work` is called
///   ends     when all elements of the slice are added
///   costs    R parts in, R sums out (one each, sent by the owner); reads every
///            element once, writes the sum once; R - 1 additions an element. No
///            part is written to; the sum is one tensor from the pool. With
///            R = 1 the sum is the part itself
///   order    tree[a, b) = tree[a, a+k) + tree[a+k, b), k the largest power of
///            two below b - a, over replica ids, whoever came first
///   if       older epoch or step, or said twice           -> ignored
///            newer epoch or step, other bucket or slice,
///            unknown replica, other shape, dtype or terms,
///            no float32 or float64, no room               -> fault
///            a replica is lost                            -> nothing ends; the
///                             owner drops this and opens another, epoch + 1
namespace troupe::tree {

using troupe::inspect, troupe::serialize;

/// Of which step a message is, and whose.
struct stamp {
  std::uint64_t epoch = 0;       ///< Of the membership.
  std::uint64_t step = 0;        ///< Global, from 0.
  std::uint32_t incarnation = 0; ///< Of the replica's actor.
  std::uint32_t replica = 0;     ///< A part's; of a sum: to whom.
  std::uint32_t bucket = 0;
  std::uint32_t slice = 0; ///< In [0, slices).
  std::uint32_t slices = 1;
  terms said{}; ///< Of a part: all say the same.

  auto fields() {
    return std::tie(epoch, step, incarnation, replica, bucket, slice, slices,
                    said);
  }
  friend bool operator==(const stamp&, const stamp&) = default;
};

struct part {
  stamp at;
  auto fields() { return std::tie(at); }
};

struct sum {
  stamp at;
  auto fields() { return std::tie(at); }
};

/// A part of a gather: goes to every other replica, and nobody adds.
struct share {
  stamp at;
  auto fields() { return std::tie(at); }
};

struct seat {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint32_t bucket = 0;
  std::uint32_t replicas = 1; ///< R >= 1.
  std::uint32_t slice = 0;
  std::uint32_t slices = 1;
};

/// A range of elements.
struct range {
  std::size_t begin = 0, end = 0;
};

/// Most adders that may share a bucket.
inline constexpr std::uint32_t most_slices = 64;

/// Elements; below, one adder is faster than two with their messages.
inline constexpr std::size_t worth_sharing = 8192;

/// Into how many slices a bucket is cut that so many could add.
constexpr std::uint32_t slices_of(std::size_t elements, std::uint32_t adders) {
  return elements < worth_sharing ? 1 : std::min(adders, most_slices);
}

/// Which of them adds a slice.
constexpr std::uint32_t adder_of(std::uint32_t bucket, std::uint32_t slice,
                                 std::uint32_t adders) {
  return (bucket + slice) % adders;
}

/// The elements of a slice; slices begin at multiples of 16 elements.
range range_of(std::size_t elements, std::uint32_t slice, std::uint32_t slices);

struct ignored {};
struct missing {}; ///< More parts are to come.
struct adding {};  ///< All are here; `work` has something to do.
struct finished {
  tensor sum; ///< The whole bucket; this slice of it is written.
};
struct fault {
  std::string why;
};
using reaction = std::variant<ignored, missing, adding, finished, fault>;

class tree_sum {
public:
  tree_sum() = default;
  explicit tree_sum(const seat& at) { open(at); }

  /// Starts over; what it held is let go.
  void open(const seat& at);

  /// @param room where the sum goes, of the part's spec; empty: a new tensor
  ///             (only if this is the only slice).
  reaction on(const part& x, const tensor& data, const tensor& room = {});

  /// Adds at most `max_elements` more, at least one block.
  /// @returns adding, finished, or missing if it may not begin yet.
  reaction work(std::size_t max_elements);

  const seat& at() const { return at_; }
  bool has(std::uint32_t replica) const { return bool(parts_[replica]); }
  bool complete() const { return arrived_ == at_.replicas; }

private:
  reaction check(const part& x, const tensor& data) const;

  seat at_;
  tensors parts_; ///< By replica; empty handles are missing.
  tensor sum_;
  terms said_; ///< By whoever came first.
  std::uint32_t arrived_ = 0;
  std::size_t next_ = 0; ///< Elements before it are added.
};

} // namespace troupe::tree
