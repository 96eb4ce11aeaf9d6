#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// A range of the flat gradient buffer. The replicas reduce it as one tensor.
struct bucket {
  std::size_t begin = 0, end = 0; ///< Elements [begin, end).
  /// Parameters [first, last): their gradients overlap the range.
  std::size_t first = 0, last = 0;

  friend bool operator==(const bucket&, const bucket&) = default;
};

/// Divides a flat buffer into buckets, from its end to its start. The backward
/// pass completes the gradients of the last parameters first, so their
/// reduction overlaps the rest of the backward pass. The buckets cover the
/// whole buffer. A parameter larger than a bucket spans several buckets.
/// @param offsets index of the first element of each parameter, ascending from
///        0.
/// @param size number of elements of the buffer.
/// @param target number of elements of a bucket. The function rounds it up to a
///        multiple of 16. If less than half a bucket remains at the start of
///        the buffer, the bucket next to these elements takes them.
std::vector<bucket> make_buckets(std::span<const std::size_t> offsets,
                                 std::size_t size, std::size_t target);

/// Tracks which buckets are ready in a step. A bucket is ready when all
/// gradients in it are complete. The tracker allocates no memory after
/// construction.
class bucket_tracker {
public:
  bucket_tracker() = default;
  bucket_tracker(std::vector<bucket> buckets, std::size_t parameters);

  const std::vector<bucket>& buckets() const { return buckets_; }

  /// Marks all gradients as incomplete.
  void reset();

  /// Marks the gradient of a parameter as complete and calls `fn(bucket index)`
  /// for each bucket that becomes ready. Buckets are reported in order of their
  /// indices: a ready bucket waits for all buckets before it. All replicas must
  /// issue their collectives in the same order.
  template <class F>
  void on_gradient_ready(std::size_t parameter, F&& fn) {
    const auto [first, last] = buckets_of_parameter_[parameter];
    for (auto i = first; i < last; ++i)
      --missing_gradients_[i];
    while (next_bucket_ < missing_gradients_.size()
           && missing_gradients_[next_bucket_] == 0)
      fn(static_cast<std::uint32_t>(next_bucket_++));
  }

private:
  struct range {
    std::size_t first = 0, last = 0;
  };
  std::vector<bucket> buckets_;
  std::vector<range> buckets_of_parameter_; ///< By parameter.
  /// Number of incomplete gradients in each bucket.
  std::vector<std::uint32_t> missing_gradients_;
  std::size_t next_bucket_ = 0; ///< First bucket not yet reported.
};

} // namespace troupe
