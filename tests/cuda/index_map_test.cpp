#include "troupe/tensors/base/shape.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

// The host computes what kernels compute with indices.
#define __host__
#define __device__
#include "troupe/tensors/cuda/index_map.cuh"

namespace {

using namespace troupe;
using namespace troupe::cuda;

const std::vector<std::pair<shape, shape>> broadcasts{
  {{16}, {6, 16}},
  {{}, {6, 16}},
  {{6, 1}, {6, 16}},
  {{5, 1}, {3, 5, 16}},
  {{3, 1, 16}, {3, 5, 16}},
  {{3, 1, 12}, {3, 5, 12}},
  {{1, 5, 1, 8}, {2, 5, 3, 8}},
  {{7}, {7}},
  {{24}, {24}},
  {{1}, {40}},
  {{2, 3}, {2, 3}},
  {{3}, {2, 3}},
  {{1, 16}, {6, 16}}};

/// Reads the broadcast tensor axis by axis.
std::size_t index_in(const shape& x, const shape& target, std::size_t i) {
  std::size_t out = 0, step = 1;
  for (std::size_t k = 0; k < target.rank(); ++k) {
    const auto axis = target.rank() - 1 - k;
    const auto at = i % std::size_t(target[axis]);
    i /= std::size_t(target[axis]);
    if (k >= x.rank())
      continue;
    const auto extent = std::size_t(x[x.rank() - 1 - k]);
    out += (extent == 1 ? 0 : at) * step;
    step *= extent;
  }
  return out;
}

TEST(IndexMap, ReadsABroadcastTensor) {
  for (const auto& [x, target] : broadcasts) {
    const auto map = broadcast_map(x, target);
    for (std::size_t i = 0; i < target.elements(); ++i)
      ASSERT_EQ(map(i), index_in(x, target, i))
        << to_string(x) << " as " << to_string(target);
  }
}

/// A thread then loads the elements from the first one on.
TEST(IndexMap, OfPacksRepeatsAnIndexOrHasNeighbors) {
  std::size_t packed = 0, repeated = 0;
  for (const auto& [x, target] : broadcasts)
    for (const std::size_t lanes : {2, 4, 8}) {
      const auto map = broadcast_map(x, target);
      if (!map.is_packed(lanes))
        continue;
      ++(map.repeats() ? repeated : packed);
      for (std::size_t i = 0; i + lanes <= target.elements(); i += lanes) {
        EXPECT_TRUE(map.repeats() || map(i) % lanes == 0);
        for (std::size_t k = 0; k < lanes; ++k)
          ASSERT_EQ(map(i + k), map(i) + (map.repeats() ? 0 : k))
            << to_string(x) << " as " << to_string(target) << ", " << lanes;
      }
    }
  EXPECT_GE(packed, 10u);
  EXPECT_GE(repeated, 8u);
}

TEST(IndexMap, OfPacksIsRefusedWhereAPackEndsInAnotherRow) {
  EXPECT_FALSE(broadcast_map({12}, {3, 12}).is_packed(8));
  EXPECT_TRUE(broadcast_map({12}, {3, 12}).is_packed(4));
  EXPECT_FALSE(broadcast_map({3, 1}, {3, 12}).is_packed(8));
}

} // namespace
