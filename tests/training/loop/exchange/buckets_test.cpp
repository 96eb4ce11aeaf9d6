#include "troupe/training/loop/exchange/buckets.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace {

using namespace troupe;

using sizes = std::vector<std::size_t>;

/// Returns the offsets of 1 to 12 parameters, and the size of their buffer.
/// Each parameter has 1 to 4,000 elements and begins at a multiple of 16.
std::pair<sizes, std::size_t> some_layout(std::mt19937& rng) {
  sizes offsets;
  std::size_t offset = 0;
  for (auto n = 1 + rng() % 12; n > 0; --n) {
    offsets.push_back(offset);
    offset += (1 + rng() % 4000 + 15) / 16 * 16;
  }
  return {offsets, offset};
}

TEST(Buckets, CoverTheBufferFromItsEnd) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng{seed};
    const auto [offsets, size] = some_layout(rng);
    const auto target = 1 + rng() % 3000;
    auto end = size;
    for (const auto& b : make_buckets(offsets, size, target)) {
      ASSERT_EQ(b.end, end);
      ASSERT_LT(b.begin, b.end);
      ASSERT_EQ(b.begin % 16, 0u);
      ASSERT_LT(b.end - b.begin, (target + 15) / 16 * 16 * 3 / 2 + 16);
      end = b.begin;
    }
    ASSERT_EQ(end, 0u);
  }
}

TEST(Buckets, ListTheParametersThatTheyOverlap) {
  const auto all = make_buckets(sizes{0, 32, 48, 1024}, 1056, 512);
  const std::vector<bucket> expected{{544, 1056, 2, 4}, {0, 544, 0, 3}};
  EXPECT_EQ(all, expected);
}

TEST(Buckets, AreEmptyForAModelWithoutParameters) {
  EXPECT_TRUE(make_buckets({}, 0, 1024).empty());
}

TEST(Buckets, SmallRemainderIsMergedAtTheFront) {
  const auto all = make_buckets(sizes{0}, 1024 + 496, 1024);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0], (bucket{0, 1520, 0, 1}));
}

TEST(Buckets, TargetOfZeroIsRejected) {
  EXPECT_THROW(make_buckets(sizes{0}, 16, 0), std::logic_error);
}

TEST(BucketTracker, ReportsEachBucketOnceInOrderWhenItsGradientsAreComplete) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng{seed};
    const auto [offsets, size] = some_layout(rng);
    bucket_tracker progress{make_buckets(offsets, size, 1 + rng() % 3000),
                            offsets.size()};
    for (int pass = 0; pass < 2; ++pass) {
      sizes order(offsets.size());
      for (std::size_t i = 0; i < order.size(); ++i)
        order[i] = i;
      for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[rng() % i]);
      std::set<std::size_t> complete;
      std::set<std::uint32_t> ready;
      progress.reset();
      for (const auto p : order) {
        complete.insert(p);
        progress.on_gradient_ready(p, [&](std::uint32_t b) {
          ASSERT_EQ(b, ready.size());
          ready.insert(b);
          const auto& held = progress.buckets()[b];
          for (auto i = held.first; i < held.last; ++i)
            ASSERT_TRUE(complete.contains(i));
        });
      }
      ASSERT_EQ(ready.size(), progress.buckets().size());
    }
  }
}

} // namespace
