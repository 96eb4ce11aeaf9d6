#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// A range of the flat gradient buffer that is reduced as one tensor.
struct bucket {
  std::size_t begin = 0, end = 0; ///< Elements of the flat buffer.
  /// Parameters whose gradients overlap the range: [first, last).
  std::size_t first = 0, last = 0;

  friend bool operator==(const bucket&, const bucket&) = default;
};

/// Divides a flat buffer into buckets, beginning at its end. The backward pass
/// completes the last parameters first, so their reduction overlaps the rest of
/// the backward pass. The buckets cover the buffer; a parameter larger than a
/// bucket spans several.
/// @param offsets start of each parameter, ascending, the first at 0.
/// @param size elements of the buffer.
/// @param target elements of a bucket, rounded up to a multiple of 16. If less
///        than half of that remains at the front, it is added to the
///        neighboring bucket.
std::vector<bucket> make_buckets(std::span<const std::size_t> offsets,
                                 std::size_t size, std::size_t target);

/// Tracks which buckets become ready as the gradients of a step complete. It
/// allocates no memory after construction.
class bucket_tracker {
public:
  bucket_tracker() = default;
  bucket_tracker(std::vector<bucket> buckets, std::size_t parameters);

  const std::vector<bucket>& buckets() const { return buckets_; }

  /// Marks all gradients as incomplete.
  void reset();

  /// Marks the gradient of a parameter as complete and calls `fn(bucket index)`
  /// for each bucket that becomes ready. Buckets are reported in order of their
  /// indices, whichever completes first, because all replicas must issue their
  /// collectives in one order.
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
  std::vector<range> buckets_of_parameter_; ///< Buckets of each parameter.
  /// Missing gradients of each bucket.
  std::vector<std::uint32_t> missing_gradients_;
  std::size_t next_bucket_ = 0; ///< First bucket that was not reported.
};

} // namespace troupe
