#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// A range of the flat gradient buffer that is summed over replicas as one.
struct bucket {
  std::size_t begin = 0, end = 0; ///< Elements of the flat buffer.
  /// The parameters whose gradients it holds parts of: [first, last).
  std::size_t first = 0, last = 0;

  friend bool operator==(const bucket&, const bucket&) = default;
};

/// Cuts a flat buffer into buckets, from its end: backward completes the last
/// parameters first, so that their sums run while it still does. Together the
/// buckets cover the buffer; a parameter larger than a bucket spans several.
/// @param offsets where each parameter starts, ascending, the first at 0.
/// @param size    elements of the buffer.
/// @param target  elements of a bucket, rounded up to a multiple of 16; what
///                remains at the front is joined to its neighbour if it is
///                below half of that.
std::vector<bucket> cut_into_buckets(std::span<const std::size_t> offsets,
                                     std::size_t size, std::size_t target);

/// Which buckets become ready as gradients complete, one step at a time. Asks
/// the system for nothing once constructed.
class bucket_progress {
public:
  bucket_progress() = default;
  bucket_progress(std::vector<bucket> buckets, std::size_t parameters);

  const std::vector<bucket>& buckets() const { return buckets_; }

  /// Nothing is complete again.
  void restart();

  /// The gradient of a parameter is complete: calls `fn(bucket index)` for each
  /// bucket that waited for nothing else, in order of their indices, whichever
  /// is complete first: all replicas must make the same exchanges.
  template <class F>
  void complete(std::size_t parameter, F&& fn) {
    const auto [first, last] = holding_[parameter];
    for (auto i = first; i < last; ++i)
      --waits_[i];
    while (next_ < waits_.size() && waits_[next_] == 0)
      fn(static_cast<std::uint32_t>(next_++));
  }

private:
  struct range {
    std::size_t first = 0, last = 0;
  };
  std::vector<bucket> buckets_;
  std::vector<range> holding_;       ///< Per parameter: its buckets.
  std::vector<std::uint32_t> waits_; ///< Per bucket: gradients to come.
  std::size_t next_ = 0;             ///< Bucket that was not reported.
};

} // namespace troupe
