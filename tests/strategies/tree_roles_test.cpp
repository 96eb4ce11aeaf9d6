#include "troupe/strategies/tree_adders.hpp"
#include "troupe/strategies/tree_member.hpp"

#include <gtest/gtest.h>

#include <limits>

using namespace troupe;
using namespace troupe::tree;

namespace {

constexpr auto all = std::numeric_limits<std::size_t>::max();

stamp at(std::uint64_t step, std::uint32_t replica, std::uint32_t bucket = 0,
         std::uint64_t epoch = 1) {
  return {epoch, step, 1, replica, bucket, 0, 1};
}

tensor ones() {
  return tensor::full({4}, 1);
}

} // namespace

TEST(Adders, AddEachBucketOnItsOwnAndTheOneThatIsAskedForFirst) {
  adders sums{2};
  for (const std::uint32_t bucket : {5, 6})
    for (const std::uint32_t r : {0, 1})
      sums.on({at(0, r, bucket)}, ones(), {});
  EXPECT_TRUE(sums.busy());
  const auto first = sums.work(all, 6);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->at.bucket, 6u);
  EXPECT_EQ(first->sum.data<float>()[3], 2);
  EXPECT_EQ(sums.work(all)->at.bucket, 5u);
  EXPECT_FALSE(sums.busy());
  EXPECT_FALSE(sums.work(all));
}

TEST(Adders, IgnoreWhatComesTwiceAfterTheSumIsOut) {
  adders sums{2};
  sums.on({at(0, 0)}, ones(), {});
  sums.on({at(0, 1)}, ones(), {});
  sums.work(all);
  EXPECT_TRUE(std::holds_alternative<ignored>(sums.on({at(0, 0)}, ones(), {})));
  EXPECT_FALSE(sums.lacking(0));
  sums.on({at(1, 0)}, ones(), {});
  EXPECT_TRUE(std::holds_alternative<ignored>(sums.on({at(0, 1)}, ones(), {})));
}

TEST(Adders, ANewerEpochTakesOver) {
  adders sums{2};
  sums.on({at(3, 0)}, ones(), {});
  sums.on({at(0, 0, 0, 2)}, ones(), {});
  EXPECT_TRUE(std::holds_alternative<ignored>(sums.on({at(3, 1)}, ones(), {})));
  sums.on({at(0, 1, 0, 2)}, ones(), {});
  EXPECT_EQ(sums.work(all)->at.epoch, 2u);
}

TEST(Adders, FaultIfReplicasDisagreeOnTheirBuckets) {
  adders sums{2};
  sums.on({at(0, 0)}, ones(), {});
  const auto what = sums.on({at(1, 1)}, ones(), {});
  EXPECT_TRUE(std::holds_alternative<fault>(what));
}

TEST(Adders, FaultIfReplicasCutABucketDifferently) {
  adders sums{2};
  sums.on({at(0, 0, 3)}, ones(), {});
  auto other = at(0, 1, 3);
  other.slices = 2;
  const auto what = sums.on({other}, ones(), ones());
  ASSERT_TRUE(std::holds_alternative<fault>(what));
  EXPECT_EQ(std::get<fault>(what).why,
            "the part of replica 1 in bucket 3, step 0, is cut into 2, those "
            "before it into 1: the replicas do not make the same exchanges");
}

TEST(Adders, NameWhoIsMissing) {
  adders sums{4};
  sums.on({at(0, 1, 9)}, ones(), {});
  const auto lack = sums.lacking(0);
  ASSERT_TRUE(lack);
  EXPECT_EQ(lack->bucket, 9u);
  EXPECT_EQ(lack->missing, (std::vector<std::uint32_t>{0, 2, 3}));
  EXPECT_FALSE(sums.lacking(1));
}

TEST(Adders, OfOneReplicaGiveItsPartBack) {
  adders sums{1};
  const auto mine = ones();
  sums.on({at(0, 0)}, mine, {});
  EXPECT_TRUE(sums.work(all)->sum.shares_storage_with(mine));
}

TEST(Member, HasASumWhenAllItsSlicesAreIn) {
  member m{0, 2};
  m.open(1, 0);
  const auto part = ones(), whole = ones();
  EXPECT_TRUE(m.contribute(3, part, 2)); // replica 0 brings the room
  auto s = at(0, 0, 3);
  s.slices = 2;
  EXPECT_FALSE(m.on(sum{s}, whole));
  EXPECT_FALSE(m.on(sum{s}, whole)); // said twice
  EXPECT_FALSE(m.sum_of(3));
  EXPECT_EQ(m.unsettled(), 3u);
  s.slice = 1;
  EXPECT_TRUE(m.on(sum{s}, whole));
  EXPECT_TRUE(m.sum_of(3).shares_storage_with(whole));
  EXPECT_TRUE(m.settled());
}

TEST(Member, IgnoresSumsOfAnotherStepEpochOrBucket) {
  member m{1, 2};
  m.open(2, 5);
  EXPECT_FALSE(m.contribute(0, ones(), 2)); // only replica 0 brings room
  m.open(2, 5);
  m.contribute(0, ones(), 1);
  EXPECT_FALSE(m.on(sum{at(5, 1, 0, 1)}, ones()));
  EXPECT_FALSE(m.on(sum{at(4, 1, 0, 2)}, ones()));
  EXPECT_FALSE(m.on(sum{at(5, 1, 7, 2)}, ones()));
  EXPECT_FALSE(m.settled());
}

TEST(Member, KeepsSharesOfStepsToComeAndDropsOldOnes) {
  member m{0, 2};
  m.open(1, 3);
  EXPECT_FALSE(m.on(share{at(4, 1, 2)}, ones()));
  EXPECT_FALSE(m.on(share{at(2, 1, 2)}, ones()));
  m.gather(2, ones());
  EXPECT_EQ(m.gathered(2), nullptr);
  EXPECT_EQ(m.missing_in_gather(2), (std::vector<std::uint32_t>{1}));
  EXPECT_TRUE(m.on(share{at(3, 1, 2)}, ones()));
  EXPECT_NE(m.gathered(2), nullptr);
  m.open(1, 4);
  EXPECT_EQ(m.gathered(2), nullptr);
  m.gather(2, ones());
  EXPECT_NE(m.gathered(2), nullptr);
}

TEST(Member, RefusesMisuse) {
  member m{0, 2};
  m.open(1, 0);
  m.contribute(0, ones(), 1);
  EXPECT_THROW(m.contribute(0, ones(), 1), std::logic_error);
  EXPECT_THROW(m.sum_of(1), std::logic_error);
  m.gather(0, ones());
  EXPECT_THROW(m.gather(0, ones()), std::logic_error);
}
