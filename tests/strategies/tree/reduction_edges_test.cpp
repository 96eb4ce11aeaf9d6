#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tests/strategies/tree/messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

// Tests the bounds of a bucket's slices, and of the blocks of elements that
// `reduce_some` adds at a time. Also tests the fields that must be equal in all
// contributions.

using namespace troupe;
using namespace troupe::tree;
using namespace troupe::tree::testing;

TEST(TreeReduction, RestartedKeepsNoOutputOfTheLastStep) {
  const auto output = ones(10);
  reduction machine{spec_of(2)};
  machine.on(contribution_by(0), ones(10), output);
  machine.start(spec_of(2));
  for (const std::uint32_t r : {0, 1})
    machine.on(contribution_by(r), ones(10));
  const auto what = machine.reduce_some(all_elements);
  ASSERT_TRUE(std::holds_alternative<finished>(what));
  EXPECT_FALSE(std::get<finished>(what).sum.shares_storage_with(output));
}

TEST(TreeReduction, WritesNoElementBeforeItsSlice) {
  const auto output = tensor::full({40}, -1);
  reduction machine{{1, 7, 3, 2, 1, 2}};
  machine.on(contribution_by(0, 1, 2), ones(40), output);
  machine.on(contribution_by(1, 1, 2), ones(40));
  machine.reduce_some(all_elements);
  const auto mine = range_of(40, 1, 2);
  ASSERT_EQ(mine.begin, 32u);
  EXPECT_EQ(output.data<float>()[31], -1);
  EXPECT_EQ(output.data<float>()[32], 2);
}

TEST(TreeReduction, WritesNoElementAfterItsSlice) {
  const auto ones = [] {
    auto x = tensor::zeros({40}, dtype::float64);
    std::ranges::fill(x.mutable_data<double>(), 1);
    return x;
  };
  const auto output = tensor::zeros({40}, dtype::float64);
  reduction machine{{1, 7, 3, 2, 0, 2}};
  machine.on(contribution_by(0, 0, 2), ones(), output);
  machine.on(contribution_by(1, 0, 2), ones());
  machine.reduce_some(all_elements);
  EXPECT_EQ(output.data<double>()[31], 2);
  EXPECT_EQ(output.data<double>()[32], 0);
}

TEST(TreeReduction, SplitsOnlyLargeBuckets) {
  EXPECT_EQ(range_of(32, 0, 2).end, 16u);
  EXPECT_EQ(range_of(33, 0, 2).end, 32u);
  EXPECT_EQ(slices_of(min_split_elements - 1, 4), 1u);
  EXPECT_EQ(slices_of(min_split_elements, 4), 4u);
  EXPECT_EQ(slices_of(min_split_elements, 100), max_slices);
}

TEST(TreeReduction, RejectsAnotherBucketSliceOrNumberOfSlices) {
  const auto input = tensor::zeros({64});
  for (const auto change : {0, 1, 2}) {
    reduction machine{{1, 7, 3, 2, 0, 2}};
    auto other = contribution_by(0, 0, 2);
    (change == 0   ? other.key.bucket
     : change == 1 ? other.key.slice
                   : other.key.slices) += 1;
    EXPECT_NE(reason_of(machine.on(other, input, input)), "no fault") << change;
  }
}

TEST(TreeReduction, RejectsOtherOptionsAndAMissingOutput) {
  const auto input = tensor::zeros({64});
  reduction machine{spec_of(3)};
  auto timed = contribution_by(1);
  timed.key.options.timeout = 100;
  machine.on(timed, input);
  EXPECT_EQ(reason_of(machine.on(contribution_by(0), input)),
            "the contribution of replica 0 to bucket 3, step 7 requests a sum "
            "by tree, that of replica 1 by tree with timeout 100 ms: the "
            "replicas do not pass the same options");
  timed.key.replica = 0;
  EXPECT_TRUE(std::holds_alternative<missing>(machine.on(timed, input)));
  reduction sliced{{1, 7, 3, 2, 0, 2}};
  sliced.on(contribution_by(0, 0, 2), input);
  EXPECT_EQ(reason_of(sliced.on(contribution_by(1, 0, 2), input)),
            "the contribution of replica 1 to bucket 3, step 7: no "
            "contribution carries an output tensor");
}

TEST(TreeReduction, AddsAtLeastABlockAtATime) {
  reduction machine{spec_of(2)};
  machine.on(contribution_by(0), ones(3 * block));
  EXPECT_TRUE(
    std::holds_alternative<missing>(machine.reduce_some(all_elements)));
  machine.on(contribution_by(1), ones(3 * block));
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(std::holds_alternative<reducing>(machine.reduce_some(1)));
  EXPECT_TRUE(std::holds_alternative<finished>(machine.reduce_some(1)));
  EXPECT_TRUE(std::holds_alternative<missing>(machine.reduce_some(1)));
}
