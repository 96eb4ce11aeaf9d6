#include "troupe/tensors/base/memory.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/tensor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

namespace memory = troupe::memory;

TEST(Memory, IsAlignedAndOfTheRequestedSize) {
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  std::mt19937 rng{1};
  for (std::size_t i = 0; i < 600; ++i) {
    const auto size = i < 300 ? i : rng() % 300'000;
    auto* at = static_cast<unsigned char*>(memory::allocate(size));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % memory::alignment, 0u);
    std::memset(at, static_cast<int>(i % 251), size);
    blocks.emplace_back(at, size);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto [at, size] = blocks[i];
    EXPECT_TRUE(
      std::all_of(at, at + size, [&](auto x) { return x == i % 251; }));
    memory::release(at, size);
  }
}

TEST(Memory, ReusesAReleasedBlock) {
  for (const std::size_t size : {1, 64, 1000, 4096, 100'000, 5'000'000}) {
    auto* first = memory::allocate(size);
    memory::release(first, size);
    auto* second = memory::allocate(size);
    EXPECT_EQ(first, second) << size;
    memory::release(second, size);
  }
}

TEST(Memory, CountsLiveAndCachedBytes) {
  memory::trim();
  const auto before = memory::used();
  EXPECT_EQ(before.cached, 0u);
  auto* block = memory::allocate(100'000);
  const auto during = memory::used();
  EXPECT_GE(during.live, before.live + 100'000);
  EXPECT_LE(during.live, before.live + 112'500 + 64); // At most 1/8 is unused.
  EXPECT_GE(during.peak, during.live);
  memory::release(block, 100'000);
  const auto after = memory::used();
  EXPECT_EQ(after.live, before.live);
  EXPECT_EQ(after.cached, during.live - before.live);
  memory::trim();
  EXPECT_EQ(memory::used().cached, 0u);
  EXPECT_EQ(memory::used().peak, after.peak);
}

TEST(Memory, WastesAtMostAnEighthOfABlock) {
  for (std::size_t size = 1024; size < 70'000'000; size += size / 13) {
    const auto before = memory::used().live;
    auto* block = memory::allocate(size);
    EXPECT_LE(memory::used().live - before, size + size / 8 + 64) << size;
    memory::release(block, size);
    memory::trim();
  }
}

// If shapes change in every step, blocks of old sizes must not accumulate.
TEST(Memory, TheCacheIsBoundedIfEverySizeIsNew) {
  memory::trim();
  const auto before = memory::used();
  for (std::size_t i = 0; i < 200; ++i) {
    const auto size = (1u << 20) + i * 150'000;
    memory::release(memory::allocate(size), size);
    const auto most_live = before.live + size + size / 8 + 64;
    EXPECT_LE(memory::used().cached, most_live + (32u << 20));
  }
  EXPECT_EQ(memory::used().live, before.live);
  memory::trim();
}

// Two replicas allocate and release the same blocks in every step, interleaved
// differently each time. No block returns to the system.
TEST(Memory, ReleasesNothingWhileStepsInterleave) {
  memory::trim();
  const std::vector<std::size_t> step{6'400'000, 12'800'000, 3'200'000,
                                      9'600'000, 5'000'000};
  const unsigned seed = 1;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng{seed};
  std::size_t kept = 0, r = 0;
  for (int i = 0; i < 100; ++i) {
    std::array<std::vector<void*>, 2> held;
    std::array<bool, 2> back{};
    while (!back[0] || !back[1] || !held[0].empty() || !held[1].empty()) {
      if (i < 3) // Replicas do not overlap at first.
        r = back[0] && held[0].empty() ? 1 : 0;
      else
        r = rng() % 2;
      auto& blocks = held[r];
      if (!back[r]) {
        blocks.push_back(memory::allocate(step[blocks.size()]));
        back[r] = blocks.size() == step.size();
      } else if (!blocks.empty()) {
        memory::release(blocks.back(), step[blocks.size() - 1]);
        blocks.pop_back();
      }
      const auto now = memory::used();
      ASSERT_GE(now.live + now.cached, kept);
      kept = now.live + now.cached;
    }
  }
  memory::trim();
}

TEST(Memory, RejectsImpossibleSizesAndDoesNotCountThem) {
  const auto before = memory::used().live;
  // volatile hides the size from the compiler, which would warn.
  volatile auto too_much = std::size_t{1} << 62;
  EXPECT_THROW(memory::allocate(too_much), std::bad_alloc);
  too_much = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(memory::allocate(too_much), std::bad_alloc);
  too_much = std::numeric_limits<std::size_t>::max() - 63;
  EXPECT_THROW(memory::allocate(too_much), std::bad_alloc);
  EXPECT_EQ(memory::used().live, before);
}

TEST(Memory, ReleasesNothingForNull) {
  const auto before = memory::used();
  memory::release(nullptr, 1000);
  EXPECT_EQ(memory::used().live, before.live);
}

TEST(Memory, ABlockBelongsToOneThread) {
  const auto before = memory::used().live;
  const auto work = [](unsigned char mark) {
    std::mt19937 rng{mark};
    std::vector<std::pair<unsigned char*, std::size_t>> blocks;
    for (int i = 0; i < 3000; ++i) {
      const auto size = std::size_t{64} << rng() % 8;
      auto* at = static_cast<unsigned char*>(memory::allocate(size));
      std::memset(at, mark, size);
      blocks.emplace_back(at, size);
      if (blocks.size() > 8) {
        const auto index = rng() % blocks.size();
        const auto [old, bytes] = blocks[index];
        ASSERT_TRUE(
          std::all_of(old, old + bytes, [&](auto x) { return x == mark; }));
        memory::release(old, bytes);
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(index));
      }
      if (i % 1000 == 0)
        memory::trim();
    }
    for (const auto& [at, size] : blocks)
      memory::release(at, size);
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned char mark = 1; mark <= 4; ++mark)
      threads.emplace_back(work, mark);
  }
  EXPECT_EQ(memory::used().live, before);
}

TEST(Pooled, ReturnsItsMemoryToThePool) {
  memory::trim();
  const auto before = memory::used();
  {
    troupe::pooled<int> x(1000, 5);
    EXPECT_GE(memory::used().live, before.live + 4000);
    EXPECT_EQ(std::count(x.begin(), x.end(), 5), 1000);
  }
  EXPECT_EQ(memory::used().live, before.live);
  EXPECT_GE(memory::used().cached, 4000u);
}

/// A memory file that stays mapped until the process ends.
struct file_pages {
  explicit file_pages(std::size_t bytes)
    : fd{::memfd_create("test", MFD_CLOEXEC)} {
    EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
    auto* at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT_NE(at, MAP_FAILED);
    mapping = {static_cast<std::byte*>(at), bytes};
  }
  bool hold(const void* x) const {
    return x >= mapping.data() && x < mapping.data() + mapping.size();
  }
  std::size_t bytes_used() const {
    struct stat x {};
    EXPECT_EQ(::fstat(fd, &x), 0);
    return static_cast<std::size_t>(x.st_blocks) * 512;
  }
  int fd;
  std::span<std::byte> mapping;
};

// Large blocks lie in the region while it has space. A region cannot be unset,
// so this test runs after the tests that count blocks.
TEST(MemoryRegion, HoldsLargeBlocksWhileThereIsSpace) {
  constexpr std::size_t large = 1'000'000;
  memory::trim();
  auto* early = memory::allocate(large);
  const file_pages pages{std::size_t{1} << 26};
  memory::use_shared_region(pages.mapping);
  EXPECT_THROW(memory::use_shared_region(pages.mapping), std::logic_error);

  memory::release(early, large); // is kept for a block outside of the region
  auto* first = memory::allocate(large);
  EXPECT_TRUE(pages.hold(first));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % memory::alignment, 0u);
  std::memset(first, 1, large);
  EXPECT_GE(pages.bytes_used(), large);
  memory::release(first, large);
  EXPECT_EQ(memory::allocate(large), first);

  auto* own = memory::allocate(large, false);
  EXPECT_EQ(own, early);
  memory::release(own, large);

  auto* small = memory::allocate(memory::min_region_bytes / 2);
  EXPECT_FALSE(pages.hold(small));
  memory::release(small, memory::min_region_bytes / 2);
  auto* too_large = memory::allocate(pages.mapping.size());
  EXPECT_FALSE(pages.hold(too_large));
  std::memset(too_large, 1, large);
  memory::release(too_large, pages.mapping.size());

  auto* second = memory::allocate(large);
  EXPECT_TRUE(pages.hold(second));
  EXPECT_NE(second, first);
  memory::release(first, large);
  memory::release(second, large);
  memory::trim();
  // `trim` returns the pages of a block to the system, except its first page.
  // Two blocks of the region were used, so two pages remain. They fit the bound
  // if a page has at most 32 KiB.
  EXPECT_LE(pages.bytes_used(), std::size_t{64} * 1024);
  EXPECT_EQ(memory::used().cached, 0u);
  auto* again = memory::allocate(large);
  EXPECT_TRUE(pages.hold(again));
  std::memset(again, 2, large);
  memory::release(again, large);

  const auto is_shared = [&](const troupe::tensor& x) {
    return pages.hold(x.raw());
  };
  const troupe::shape dims{large / 4};
  EXPECT_TRUE(is_shared(troupe::tensor{dims}));
  {
    const troupe::sharing_scope own_tensors{false};
    EXPECT_FALSE(is_shared(troupe::tensor{dims}));
    const troupe::sharing_scope shared_tensors{true};
    EXPECT_TRUE(is_shared(troupe::tensor{dims}));
  }
  EXPECT_TRUE(is_shared(troupe::tensor{dims}));

  // If the region is full, a block outside of it is used again.
  constexpr std::size_t part = std::size_t{8} << 20;
  std::vector<void*> full{memory::allocate(part)};
  while (pages.hold(full.back()))
    full.push_back(memory::allocate(part));
  memory::release(full.back(), part);
  EXPECT_EQ(memory::allocate(part), full.back());
  for (auto* block : full)
    memory::release(block, part);
}

} // namespace
