#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tests/strategies/tree/messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

// Limits of slices and blocks, and fields in which contributions must agree.

using namespace troupe;
using namespace troupe::tree;
using namespace troupe::tree::testing;

namespace {

std::string why(const reaction& x) {
  auto* it = std::get_if<fault>(&x);
  return it ? it->why : "no fault";
}

} // namespace

TEST(TreeReduction, RestartedKeepsNoOutputOfTheLastStep) {
  const auto room = ones(10);
  tree_sum machine{of(2)};
  machine.on(by(0), ones(10), room);
  machine.open(of(2));
  for (const std::uint32_t r : {0, 1})
    machine.on(by(r), ones(10));
  const auto what = machine.work(all);
  ASSERT_TRUE(std::holds_alternative<finished>(what));
  EXPECT_FALSE(std::get<finished>(what).sum.shares_storage_with(room));
}

TEST(TreeReduction, WritesNoElementBeforeItsSlice) {
  const auto room = tensor::full({40}, -1);
  tree_sum machine{{1, 7, 3, 2, 1, 2}};
  machine.on(by(0, 1, 2), ones(40), room);
  machine.on(by(1, 1, 2), ones(40));
  machine.work(all);
  const auto mine = range_of(40, 1, 2);
  ASSERT_EQ(mine.begin, 32u);
  EXPECT_EQ(room.data<float>()[31], -1);
  EXPECT_EQ(room.data<float>()[32], 2);
}

TEST(TreeReduction, WritesNoElementAfterItsSlice) {
  const auto ones = [] {
    auto x = tensor::zeros({40}, dtype::float64);
    std::ranges::fill(x.mutable_data<double>(), 1);
    return x;
  };
  const auto room = tensor::zeros({40}, dtype::float64);
  tree_sum machine{{1, 7, 3, 2, 0, 2}};
  machine.on(by(0, 0, 2), ones(), room);
  machine.on(by(1, 0, 2), ones());
  machine.work(all);
  EXPECT_EQ(room.data<double>()[31], 2);
  EXPECT_EQ(room.data<double>()[32], 0);
}

TEST(TreeReduction, SplitsOnlyLargeBuckets) {
  EXPECT_EQ(range_of(32, 0, 2).end, 16u);
  EXPECT_EQ(range_of(33, 0, 2).end, 32u);
  EXPECT_EQ(slices_of(worth_sharing - 1, 4), 1u);
  EXPECT_EQ(slices_of(worth_sharing, 4), 4u);
  EXPECT_EQ(slices_of(worth_sharing, 100), most_slices);
}

TEST(TreeReduction, RejectsAnotherBucketSliceOrNumberOfSlices) {
  const auto x = tensor::zeros({64});
  for (const auto change : {0, 1, 2}) {
    tree_sum machine{{1, 7, 3, 2, 0, 2}};
    auto other = by(0, 0, 2);
    (change == 0   ? other.at.bucket
     : change == 1 ? other.at.slice
                   : other.at.slices) += 1;
    EXPECT_NE(why(machine.on(other, x, x)), "no fault") << change;
  }
}

TEST(TreeReduction, RejectsOtherOptionsAndAMissingOutput) {
  const auto x = tensor::zeros({64});
  tree_sum machine{of(3)};
  auto timed = by(1);
  timed.at.said.timeout = 100;
  machine.on(timed, x);
  EXPECT_EQ(why(machine.on(by(0), x)),
            "the contribution of replica 0 to bucket 3, step 7 requests a sum "
            "by tree, that of replica 1 by tree with timeout 100 ms: the "
            "replicas do not pass the same options");
  timed.at.replica = 0;
  EXPECT_TRUE(std::holds_alternative<missing>(machine.on(timed, x)));
  tree_sum sliced{{1, 7, 3, 2, 0, 2}};
  sliced.on(by(0, 0, 2), x);
  EXPECT_EQ(why(sliced.on(by(1, 0, 2), x)),
            "the contribution of replica 1 to bucket 3, step 7: no "
            "contribution carries an output tensor");
}

TEST(TreeReduction, AddsAtLeastABlockAtATime) {
  tree_sum machine{of(2)};
  machine.on(by(0), ones(3 * block));
  EXPECT_TRUE(std::holds_alternative<missing>(machine.work(all)));
  machine.on(by(1), ones(3 * block));
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(std::holds_alternative<adding>(machine.work(1)));
  EXPECT_TRUE(std::holds_alternative<finished>(machine.work(1)));
  EXPECT_TRUE(std::holds_alternative<missing>(machine.work(1)));
}
