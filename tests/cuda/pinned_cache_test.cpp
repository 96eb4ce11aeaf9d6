#include "troupe/tensors/cuda/pinned_cache.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <new>

// The blocks of this test are no memory, so it needs no card.

namespace {

using namespace troupe;

/// Gives out numbers as addresses.
struct counted_source {
  std::size_t limit = SIZE_MAX; ///< Of all blocks, in bytes.
  std::size_t bytes = 0;        ///< Of the blocks that were not released.
  std::map<void*, std::size_t> blocks{};
  std::uintptr_t last = 0;

  cuda::pinned_cache::source functions() {
    return {[this](std::size_t size) -> void* {
              if (size > limit - bytes)
                return nullptr;
              bytes += size;
              auto* const block = reinterpret_cast<void*>(++last * 4096);
              blocks[block] = size;
              return block;
            },
            [this](void* block) {
              bytes -= blocks.at(block);
              blocks.erase(block);
            }};
  }
};

constexpr std::size_t mib = 1 << 20;

TEST(PinnedCache, GivesOutABlockOfASimilarSizeAgain) {
  counted_source from;
  cuda::pinned_cache cache{from.functions(), 64 * mib};
  auto* const block = cache.allocate(mib - 1);
  cache.release(block, mib - 1);
  EXPECT_EQ(cache.allocate(mib - 10'000), block);
  EXPECT_NE(cache.allocate(mib), block) << "it is in use";
}

/// Such as batches whose sizes differ.
TEST(PinnedCache, KeepsABoundedNumberOfBytes) {
  counted_source from;
  cuda::pinned_cache cache{from.functions(), 64 * mib};
  for (std::size_t size = mib; size < 100 * mib; size += 4096) {
    cache.release(cache.allocate(size), size);
    ASSERT_LE(from.bytes, 64 * mib);
  }
}

TEST(PinnedCache, ReturnsWhatItKeepsBeforeAnAllocationFails) {
  counted_source from{.limit = 10 * mib};
  cuda::pinned_cache cache{from.functions(), 64 * mib};
  cache.release(cache.allocate(8 * mib), 8 * mib);
  auto* const block = cache.allocate(9 * mib);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(from.blocks.size(), 1u);
  EXPECT_THROW(cache.allocate(9 * mib), std::bad_alloc);
  cache.release(block, 9 * mib);
}

} // namespace
