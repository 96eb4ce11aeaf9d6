#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe::parameter_server {

/// Staleness of gradients that closures have computed: how many other changes
/// of a part of a variable took place after the closure had read it, and before
/// its gradient changed it. Gradients of synchronous steps do not count, nor do
/// those of a variable that the closure has not read.
struct gradient_staleness {
  std::uint64_t gradients = 0; ///< One for each part that a gradient changed.
  std::uint64_t sum = 0;
  std::uint64_t largest = 0;

  /// Zero if there is no gradient.
  double mean() const {
    return gradients == 0
             ? 0
             : static_cast<double>(sum) / static_cast<double>(gradients);
  }
  gradient_staleness& operator+=(const gradient_staleness& x) {
    gradients += x.gradients;
    sum += x.sum;
    largest = std::max(largest, x.largest);
    return *this;
  }
};

} // namespace troupe::parameter_server
