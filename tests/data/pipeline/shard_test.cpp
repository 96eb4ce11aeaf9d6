#include "troupe/tests/data/counted.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace troupe::data {
namespace {

using namespace testing;

TEST(Shard, ShardsAddUpToTheBatches) {
  const dataset chains[] = {
    counted(23).shuffle().batch(5), counted(23).batch(4).shuffle(3),
    counted(7).batch(3).repeat(2).skip(1), counted(2).batch(4),
    counted(23).batch(5).map([](const batch& x) { return x; })};
  for (const auto& x : chains)
    for (std::uint32_t shards = 1; shards < 8; ++shards) {
      const auto whole = all_names(x, 1);
      auto joined = lists(whole.size());
      for (std::uint32_t first = 0; first < shards; first += 2) {
        const auto last = std::min(first + 2, shards);
        const auto mine =
          all_names(x.shard(first, last, shards).prefetch(2), 1);
        ASSERT_EQ(mine.size(), whole.size()); // Empty batches are counted too.
        for (std::size_t i = 0; i < mine.size(); ++i)
          joined[i].insert(joined[i].end(), mine[i].begin(), mine[i].end());
      }
      EXPECT_EQ(joined, whole) << shards << " parts";
    }
}

TEST(Shard, ReadsNoRowOfOtherShards) {
  std::atomic<int> read{0};
  const auto x = counted(32)
                   .map([&](const batch& one) {
                     ++read;
                     return one;
                   })
                   .batch(8)
                   .shard(1, 2, 4);
  EXPECT_EQ(flat(all_names(x)),
            (std::vector<int>{2, 3, 10, 11, 18, 19, 26, 27}));
  EXPECT_EQ(read, 8);
}

TEST(Shard, KnowsTheRowsOfABatchUnlessItMustBeRead) {
  const auto x = counted(10).batch(4);
  EXPECT_EQ(x.batch_rows({0, 0}), 4u);
  EXPECT_EQ(x.batch_rows({0, 2}), 2u);
  EXPECT_EQ(x.shard(0, 1, 2).skip(1).batch_rows({0, 0}), std::nullopt);
  EXPECT_EQ(x.skip(1).batch_rows({0, 1}), 2u);
  const auto same = [](const batch& one) { return one; };
  EXPECT_EQ(x.map(same).batch_rows({0, 0}), std::nullopt);
}

TEST(Shard, RejectsShardsThatDoNotExist) {
  const auto x = counted(10).batch(4);
  EXPECT_THROW(x.shard(1, 1, 2), std::invalid_argument);
  EXPECT_THROW(x.shard(1, 3, 2), std::invalid_argument);
  EXPECT_THROW(all_names(counted(10).shard(0, 1, 2)), std::logic_error);
}

TEST(Prefetch, KeepsAnEarlierTimeout) {
  EXPECT_EQ(counted(4).prefetched(), std::nullopt);
  EXPECT_EQ(counted(4).prefetch(3).prefetched(), 3u);
  const auto slow = counted(4).prefetch(3, std::chrono::milliseconds{1});
  std::atomic<bool> go{false};
  const auto stuck = slow
                       .map([&](const batch& one) {
                         go.wait(false);
                         return one;
                       })
                       .prefetch(1);
  auto each = stuck.iterate();
  EXPECT_NE(complaint([&] { each.next(); }).find("within 1 ms"),
            std::string::npos);
  go = true;
  go.notify_all();
}

} // namespace
} // namespace troupe::data
