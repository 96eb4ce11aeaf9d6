#pragma once

#include "troupe/strategies/tree/reduction.hpp"

#include <limits>

// Messages of the tree protocol for its tests.

namespace troupe::tree::testing {

inline constexpr auto all = std::numeric_limits<std::size_t>::max();

inline part by(std::uint32_t replica, std::uint32_t slice = 0,
               std::uint32_t slices = 1) {
  return {{1, 7, 0, replica, 3, slice, slices}};
}

inline seat of(std::uint32_t replicas) {
  return {1, 7, 3, replicas, 0, 1};
}

inline stamp at(std::uint64_t step, std::uint32_t replica,
                std::uint32_t bucket = 0, std::uint64_t epoch = 1) {
  return {epoch, step, 1, replica, bucket, 0, 1};
}

inline tensor ones(std::size_t elements = 4) {
  return tensor::full({std::int64_t(elements)}, 1);
}

} // namespace troupe::tree::testing
