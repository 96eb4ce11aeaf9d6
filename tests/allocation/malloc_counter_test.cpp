#include "troupe/tests/support/malloc_counter.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using troupe::testing::malloc_counter;

/// Keeps the compiler from removing an allocation.
void* volatile seen;

TEST(MallocCounter, CountsAVectorThatGrows) {
  std::vector<int> x;
  const malloc_counter counter;
  // Of the vector's blocks, only those of 2 and 4 KiB exceed 1 KiB. The step
  // allocator requests only these from malloc.
  for (int i = 0; i < 1024; ++i)
    x.push_back(i);
  EXPECT_EQ(counter.calls(), 2u);
  EXPECT_EQ(counter.bytes(), 2048u + 4096u);
}

TEST(MallocCounter, CountsEveryAllocationFunction) {
  const malloc_counter counter;
  seen = std::malloc(10);
  seen = std::realloc(seen, 20);
  std::free(seen);
  seen = std::calloc(3, 4);
  std::free(seen);
  seen = std::aligned_alloc(64, 128);
  std::free(seen);
  void* at = nullptr;
  ASSERT_EQ(posix_memalign(&at, 64, 100), 0);
  std::free(at);
  EXPECT_EQ(counter.calls(), 5u);
  EXPECT_EQ(counter.bytes(), 10u + 20 + 12 + 128 + 100);
}

TEST(MallocCounter, CountsOnlyItsOwnThread) {
  std::uint64_t other_thread = 0;
  std::thread thread{[&] {
    const malloc_counter counter;
    seen = std::malloc(1);
    std::free(seen);
    other_thread = counter.calls();
  }};
  const malloc_counter counter;
  thread.join();
  EXPECT_EQ(counter.calls(), 0u);
  EXPECT_EQ(other_thread, 1u);
}

} // namespace
