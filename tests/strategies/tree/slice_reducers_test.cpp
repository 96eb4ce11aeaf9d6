#include "troupe/strategies/tree/slice_reducers.hpp"
#include "troupe/tests/strategies/tree/messages.hpp"

#include <gtest/gtest.h>

#include <limits>

using namespace troupe;
using namespace troupe::tree;
using namespace troupe::tree::testing;

TEST(SliceReducers, AddEachBucketSeparatelyAndTheRequestedOneFirst) {
  slice_reducers sums{2};
  for (const std::uint32_t bucket : {5, 6})
    for (const std::uint32_t r : {0, 1})
      sums.on({key_of(0, r, bucket)}, ones(), {});
  EXPECT_TRUE(sums.busy());
  const auto first = sums.reduce_some(all_elements, 6);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->spec.bucket, 6u);
  EXPECT_EQ(first->sum.data<float>()[3], 2);
  EXPECT_EQ(sums.reduce_some(all_elements)->spec.bucket, 5u);
  EXPECT_FALSE(sums.busy());
  EXPECT_FALSE(sums.reduce_some(all_elements));
}

TEST(SliceReducers, IgnoreRepeatedContributionsAfterTheSum) {
  slice_reducers sums{2};
  sums.on({key_of(0, 0)}, ones(), {});
  sums.on({key_of(0, 1)}, ones(), {});
  sums.reduce_some(all_elements);
  EXPECT_TRUE(
    std::holds_alternative<ignored>(sums.on({key_of(0, 0)}, ones(), {})));
  EXPECT_FALSE(sums.missing(0));
  sums.on({key_of(1, 0)}, ones(), {});
  EXPECT_TRUE(
    std::holds_alternative<ignored>(sums.on({key_of(0, 1)}, ones(), {})));
}

TEST(SliceReducers, ANewerGenerationReplacesTheOlder) {
  slice_reducers sums{2};
  sums.on({key_of(3, 0)}, ones(), {});
  sums.on({key_of(0, 0, 0, 2)}, ones(), {});
  EXPECT_TRUE(
    std::holds_alternative<ignored>(sums.on({key_of(3, 1)}, ones(), {})));
  sums.on({key_of(0, 1, 0, 2)}, ones(), {});
  EXPECT_EQ(sums.reduce_some(all_elements)->spec.generation, 2u);
}

TEST(SliceReducers, RejectDifferentBuckets) {
  slice_reducers sums{2};
  sums.on({key_of(0, 0)}, ones(), {});
  const auto what = sums.on({key_of(1, 1)}, ones(), {});
  EXPECT_TRUE(std::holds_alternative<protocol_error>(what));
}

TEST(SliceReducers, RejectDifferentNumbersOfSlices) {
  slice_reducers sums{2};
  sums.on({key_of(0, 0, 3)}, ones(), {});
  auto other = key_of(0, 1, 3);
  other.slices = 2;
  const auto what = sums.on({other}, ones(), ones());
  ASSERT_TRUE(std::holds_alternative<protocol_error>(what));
  EXPECT_EQ(
    std::get<protocol_error>(what).reason,
    "the contribution of replica 1 to bucket 3, step 0, has slice count 2, "
    "earlier contributions 1: the replicas do not call the same collectives");
}

TEST(SliceReducers, NameMissingReplicas) {
  slice_reducers sums{4};
  sums.on({key_of(0, 1, 9)}, ones(), {});
  const auto lack = sums.missing(0);
  ASSERT_TRUE(lack);
  EXPECT_EQ(lack->bucket, 9u);
  EXPECT_EQ(lack->replicas, (std::vector<std::uint32_t>{0, 2, 3}));
  EXPECT_FALSE(sums.missing(1));
}

TEST(SliceReducers, OfOneReplicaReturnItsContribution) {
  slice_reducers sums{1};
  const auto mine = ones();
  EXPECT_TRUE(
    std::holds_alternative<reducing>(sums.on({key_of(0, 0)}, mine, {})));
  EXPECT_TRUE(sums.busy());
  EXPECT_TRUE(sums.reduce_some(all_elements)->sum.shares_storage_with(mine));
  EXPECT_FALSE(sums.busy());
}

TEST(SliceReducers, AddStepAfterStep) {
  slice_reducers sums{2};
  for (std::uint64_t step = 0; step < 3; ++step) {
    EXPECT_FALSE(sums.missing(step));
    sums.on({key_of(step, 0)}, tensor::full({4}, 1), {});
    ASSERT_TRUE(sums.missing(step));
    EXPECT_EQ(sums.missing(step)->replicas, std::vector<std::uint32_t>{1});
    EXPECT_FALSE(sums.busy());
    sums.on({key_of(step, 1)}, tensor::full({4}, float(step)), {});
    EXPECT_FALSE(sums.missing(step)) << "no contribution is missing";
    EXPECT_TRUE(sums.busy());
    const auto done = sums.reduce_some(all_elements);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->spec.step, step);
    EXPECT_EQ(done->sum.data<float>()[0], 1 + float(step));
    EXPECT_FALSE(sums.busy());
  }
}

TEST(SliceReducers, AddABlockAtATime) {
  slice_reducers sums{2};
  for (const std::uint32_t r : {0, 1})
    sums.on({key_of(0, r)}, tensor::full({3000}, 1), {});
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(sums.reduce_some(1));
    EXPECT_TRUE(sums.busy());
  }
  EXPECT_TRUE(sums.reduce_some(1)) << "a block is 1024 elements";
  EXPECT_FALSE(sums.busy());
}

TEST(SliceReducers, AddTheSlicesOfABucketSeparately) {
  slice_reducers sums{2};
  const auto output = tensor::zeros({64});
  for (const std::uint32_t slice : {0, 1})
    for (const std::uint32_t r : {0, 1}) {
      auto of = key_of(0, r, 3);
      of.slice = slice;
      of.slices = 2;
      sums.on({of}, tensor::full({64}, 1), r == 0 ? output : tensor{});
    }
  const auto first = sums.reduce_some(all_elements, 3);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->spec.slice, 0u);
  EXPECT_EQ(output.data<float>()[0], 2);
  EXPECT_EQ(output.data<float>()[63], 0);
  const auto second = sums.reduce_some(all_elements, 3);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->spec.slice, 1u);
  EXPECT_EQ(output.data<float>()[63], 2);
  EXPECT_FALSE(sums.busy());
}

TEST(SliceReducers, AcceptAnotherNumberOfSlicesInTheNextStep) {
  slice_reducers sums{2};
  for (const std::uint32_t r : {0, 1})
    sums.on({key_of(0, r)}, ones(), {});
  ASSERT_TRUE(sums.reduce_some(all_elements));
  auto cut = key_of(1, 0);
  cut.slices = 2;
  EXPECT_TRUE(std::holds_alternative<missing>(sums.on({cut}, ones(), ones())));
  EXPECT_EQ(sums.missing(1)->replicas, std::vector<std::uint32_t>{1});
}

TEST(SliceReducers, RejectAnInvalidSlice) {
  slice_reducers sums{2};
  auto key = key_of(0, 0);
  for (const auto& [slice, slices] :
       {std::pair{0u, 0u}, std::pair{2u, 2u}, std::pair{3u, 2u}}) {
    key.slice = slice;
    key.slices = slices;
    EXPECT_TRUE(
      std::holds_alternative<protocol_error>(sums.on({key}, ones(), {})));
  }
  EXPECT_FALSE(sums.missing(0));
}

TEST(SliceReducers, ReleaseCompleteSlices) {
  slice_reducers sums{2};
  for (const std::uint32_t r : {0, 1})
    sums.on({key_of(0, r)}, ones(), {});
  EXPECT_TRUE(sums.busy());
  sums.begin_generation(1);
  EXPECT_TRUE(sums.busy()) << "the generation is not newer";
  sums.begin_generation(2);
  EXPECT_FALSE(sums.busy());
  EXPECT_FALSE(sums.reduce_some(all_elements));
}

TEST(SliceReducers, ReportOnlyStepsThatLackAContribution) {
  slice_reducers sums{2};
  sums.on({key_of(4, 0, 1)}, ones(), {});
  for (const std::uint32_t r : {0, 1})
    sums.on({key_of(5, r, 2)}, ones(), {});
  EXPECT_FALSE(sums.missing(5)) << "bucket 2 is complete but not added";
  EXPECT_EQ(sums.missing(4)->bucket, 1u);
}
