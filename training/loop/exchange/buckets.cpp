#include "troupe/training/loop/exchange/buckets.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

namespace {

/// Returns the index of the parameter that contains an element.
std::size_t parameter_at(std::span<const std::size_t> offsets,
                         std::size_t element) {
  const auto after = std::ranges::upper_bound(offsets, element);
  return static_cast<std::size_t>(after - offsets.begin()) - 1;
}

} // namespace

std::vector<bucket> make_buckets(std::span<const std::size_t> offsets,
                                 std::size_t size, std::size_t target) {
  if (target == 0)
    throw std::logic_error("a bucket must have at least one element");
  std::vector<bucket> buckets;
  if (size == 0 || offsets.empty())
    return buckets;
  target = (target + 15) / 16 * 16;
  for (auto end = size; end > 0;) {
    auto begin = end > target ? end - target : 0;
    begin = begin / 16 * 16;
    if (begin < target / 2)
      begin = 0;
    buckets.push_back({begin, end, parameter_at(offsets, begin),
                       parameter_at(offsets, end - 1) + 1});
    end = begin;
  }
  return buckets;
}

bucket_tracker::bucket_tracker(std::vector<bucket> buckets,
                               std::size_t parameters)
  : buckets_{std::move(buckets)},
    buckets_of_parameter_(parameters),
    missing_gradients_(buckets_.size()) {
  for (std::size_t p = 0; p < parameters; ++p) {
    const auto holds = [p](const bucket& b) {
      return b.first <= p && p < b.last;
    };
    const auto first = std::ranges::find_if(buckets_, holds);
    const auto last = std::find_if_not(first, buckets_.end(), holds);
    buckets_of_parameter_[p] = {
      static_cast<std::size_t>(first - buckets_.begin()),
      static_cast<std::size_t>(last - buckets_.begin())};
  }
  reset();
}

void bucket_tracker::reset() {
  next_bucket_ = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    missing_gradients_[i] =
      static_cast<std::uint32_t>(buckets_[i].last - buckets_[i].first);
}

} // namespace troupe
