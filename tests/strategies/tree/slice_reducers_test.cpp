#include "troupe/strategies/tree/slice_reducers.hpp"
#include "troupe/tests/strategies/tree/messages.hpp"

#include <gtest/gtest.h>

#include <limits>

using namespace troupe;
using namespace troupe::tree;
using namespace troupe::tree::testing;

TEST(SliceReducers, AddEachBucketSeparatelyAndTheRequestedOneFirst) {
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

TEST(SliceReducers, IgnoreRepeatedContributionsAfterTheSum) {
  adders sums{2};
  sums.on({at(0, 0)}, ones(), {});
  sums.on({at(0, 1)}, ones(), {});
  sums.work(all);
  EXPECT_TRUE(std::holds_alternative<ignored>(sums.on({at(0, 0)}, ones(), {})));
  EXPECT_FALSE(sums.lacking(0));
  sums.on({at(1, 0)}, ones(), {});
  EXPECT_TRUE(std::holds_alternative<ignored>(sums.on({at(0, 1)}, ones(), {})));
}

TEST(SliceReducers, ANewerGenerationReplacesTheOlder) {
  adders sums{2};
  sums.on({at(3, 0)}, ones(), {});
  sums.on({at(0, 0, 0, 2)}, ones(), {});
  EXPECT_TRUE(std::holds_alternative<ignored>(sums.on({at(3, 1)}, ones(), {})));
  sums.on({at(0, 1, 0, 2)}, ones(), {});
  EXPECT_EQ(sums.work(all)->at.epoch, 2u);
}

TEST(SliceReducers, RejectDifferentBuckets) {
  adders sums{2};
  sums.on({at(0, 0)}, ones(), {});
  const auto what = sums.on({at(1, 1)}, ones(), {});
  EXPECT_TRUE(std::holds_alternative<fault>(what));
}

TEST(SliceReducers, RejectDifferentNumbersOfSlices) {
  adders sums{2};
  sums.on({at(0, 0, 3)}, ones(), {});
  auto other = at(0, 1, 3);
  other.slices = 2;
  const auto what = sums.on({other}, ones(), ones());
  ASSERT_TRUE(std::holds_alternative<fault>(what));
  EXPECT_EQ(
    std::get<fault>(what).why,
    "the contribution of replica 1 to bucket 3, step 0, has slice count 2, "
    "earlier contributions 1: the replicas do not call the same collectives");
}

TEST(SliceReducers, NameMissingReplicas) {
  adders sums{4};
  sums.on({at(0, 1, 9)}, ones(), {});
  const auto lack = sums.lacking(0);
  ASSERT_TRUE(lack);
  EXPECT_EQ(lack->bucket, 9u);
  EXPECT_EQ(lack->missing, (std::vector<std::uint32_t>{0, 2, 3}));
  EXPECT_FALSE(sums.lacking(1));
}

TEST(SliceReducers, OfOneReplicaReturnItsContribution) {
  adders sums{1};
  const auto mine = ones();
  EXPECT_TRUE(std::holds_alternative<adding>(sums.on({at(0, 0)}, mine, {})));
  EXPECT_TRUE(sums.busy());
  EXPECT_TRUE(sums.work(all)->sum.shares_storage_with(mine));
  EXPECT_FALSE(sums.busy());
}

TEST(SliceReducers, AddStepAfterStep) {
  adders sums{2};
  for (std::uint64_t step = 0; step < 3; ++step) {
    EXPECT_FALSE(sums.lacking(step));
    sums.on({at(step, 0)}, tensor::full({4}, 1), {});
    ASSERT_TRUE(sums.lacking(step));
    EXPECT_EQ(sums.lacking(step)->missing, std::vector<std::uint32_t>{1});
    EXPECT_FALSE(sums.busy());
    sums.on({at(step, 1)}, tensor::full({4}, float(step)), {});
    EXPECT_FALSE(sums.lacking(step)) << "no contribution is missing";
    EXPECT_TRUE(sums.busy());
    const auto done = sums.work(all);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->at.step, step);
    EXPECT_EQ(done->sum.data<float>()[0], 1 + float(step));
    EXPECT_FALSE(sums.busy());
  }
}

TEST(SliceReducers, AddABlockAtATime) {
  adders sums{2};
  for (const std::uint32_t r : {0, 1})
    sums.on({at(0, r)}, tensor::full({3000}, 1), {});
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(sums.work(1));
    EXPECT_TRUE(sums.busy());
  }
  EXPECT_TRUE(sums.work(1)) << "a block is 1024 elements";
  EXPECT_FALSE(sums.busy());
}

TEST(SliceReducers, AddTheSlicesOfABucketSeparately) {
  adders sums{2};
  const auto room = tensor::zeros({64});
  for (const std::uint32_t slice : {0, 1})
    for (const std::uint32_t r : {0, 1}) {
      auto of = at(0, r, 3);
      of.slice = slice;
      of.slices = 2;
      sums.on({of}, tensor::full({64}, 1), r == 0 ? room : tensor{});
    }
  const auto first = sums.work(all, 3);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->at.slice, 0u);
  EXPECT_EQ(room.data<float>()[0], 2);
  EXPECT_EQ(room.data<float>()[63], 0);
  const auto second = sums.work(all, 3);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->at.slice, 1u);
  EXPECT_EQ(room.data<float>()[63], 2);
  EXPECT_FALSE(sums.busy());
}

TEST(SliceReducers, AcceptAnotherNumberOfSlicesInTheNextStep) {
  adders sums{2};
  for (const std::uint32_t r : {0, 1})
    sums.on({at(0, r)}, ones(), {});
  ASSERT_TRUE(sums.work(all));
  auto cut = at(1, 0);
  cut.slices = 2;
  EXPECT_TRUE(std::holds_alternative<missing>(sums.on({cut}, ones(), ones())));
  EXPECT_EQ(sums.lacking(1)->missing, std::vector<std::uint32_t>{1});
}

TEST(SliceReducers, RejectAnInvalidSlice) {
  adders sums{2};
  auto x = at(0, 0);
  for (const auto& [slice, slices] :
       {std::pair{0u, 0u}, std::pair{2u, 2u}, std::pair{3u, 2u}}) {
    x.slice = slice;
    x.slices = slices;
    EXPECT_TRUE(std::holds_alternative<fault>(sums.on({x}, ones(), {})));
  }
  EXPECT_FALSE(sums.lacking(0));
}

TEST(SliceReducers, ReleaseCompleteSlices) {
  adders sums{2};
  for (const std::uint32_t r : {0, 1})
    sums.on({at(0, r)}, ones(), {});
  EXPECT_TRUE(sums.busy());
  sums.open(1);
  EXPECT_TRUE(sums.busy()) << "the generation is not newer";
  sums.open(2);
  EXPECT_FALSE(sums.busy());
  EXPECT_FALSE(sums.work(all));
}

TEST(SliceReducers, ReportOnlyStepsThatLackAContribution) {
  adders sums{2};
  sums.on({at(4, 0, 1)}, ones(), {});
  for (const std::uint32_t r : {0, 1})
    sums.on({at(5, r, 2)}, ones(), {});
  EXPECT_FALSE(sums.lacking(5)) << "bucket 2 is complete but not added";
  EXPECT_EQ(sums.lacking(4)->bucket, 1u);
}
