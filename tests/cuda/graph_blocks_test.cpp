#include "troupe/tensors/cuda/graph_blocks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

// The blocks of this test are no memory, so it needs no card.

namespace {

using namespace troupe;
using cuda::class_of;

std::byte* block(std::uintptr_t number) {
  return reinterpret_cast<std::byte*>(number * 4096);
}

std::set<std::byte*> removed(cuda::graph_blocks& from, std::uint64_t graph) {
  std::set<std::byte*> out;
  from.remove(graph, [&](std::byte* one, const cuda::size_class& size) {
    EXPECT_EQ(size.bytes, 512u);
    out.insert(one);
  });
  return out;
}

TEST(GraphBlocks, AReleasedBlockIsGivenToItsGraphOnly) {
  cuda::graph_blocks it;
  const auto small = class_of(512), large = class_of(5000);
  it.add(1, block(1), small);
  EXPECT_EQ(it.take(1, small), nullptr) << "a tensor uses it";
  EXPECT_TRUE(it.release(block(1)));
  EXPECT_EQ(it.take(2, small), nullptr);
  EXPECT_EQ(it.take(1, large), nullptr);
  EXPECT_EQ(it.take(1, small), block(1));
  EXPECT_EQ(it.take(1, small), nullptr);
}

TEST(GraphBlocks, EachGraphGivesOutEachOfItsBlocksOnce) {
  cuda::graph_blocks it;
  const auto size = class_of(512);
  for (std::uintptr_t i = 1; i <= 100; ++i)
    it.add(i % 2, block(i), size);
  for (std::uintptr_t i = 1; i <= 100; ++i)
    EXPECT_TRUE(it.release(block(i)));
  for (const std::uint64_t graph : {0, 1}) {
    std::set<std::byte*> taken;
    while (auto* const one = it.take(graph, size)) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one) / 4096 % 2, graph);
      EXPECT_TRUE(taken.insert(one).second);
    }
    EXPECT_EQ(taken.size(), 50u);
  }
}

TEST(GraphBlocks, ABlockOfNoGraphIsNotTaken) {
  cuda::graph_blocks it;
  it.add(1, block(1), class_of(512));
  EXPECT_FALSE(it.release(block(2)));
}

TEST(GraphBlocks, WhatTensorsUseOutlivesTheGraph) {
  cuda::graph_blocks it;
  for (const std::uintptr_t i : {1, 2, 3})
    it.add(i == 3 ? 2 : 1, block(i), class_of(512));
  it.release(block(1));
  it.release(block(3));
  EXPECT_EQ(removed(it, 1), (std::set{block(1)}));
  EXPECT_FALSE(it.release(block(1)));
  EXPECT_FALSE(it.release(block(2)));
  EXPECT_EQ(it.take(2, class_of(512)), block(3));
  EXPECT_TRUE(removed(it, 1).empty());
  EXPECT_TRUE(removed(it, 2).empty()) << "a tensor uses it again";
}

} // namespace
