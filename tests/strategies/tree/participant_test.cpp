#include "troupe/strategies/tree/participant.hpp"
#include "troupe/tests/strategies/tree/messages.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::tree;
using namespace troupe::tree::testing;

TEST(TreeParticipant, HasASumWhenAllSlicesHaveArrived) {
  member m{0, 2};
  m.open(1, 0);
  const auto part = ones(), whole = ones();
  EXPECT_TRUE(m.contribute(3, part, 2)); // replica 0 provides the output
  auto s = at(0, 0, 3);
  s.slices = 2;
  EXPECT_FALSE(m.on(sum{s}, whole));
  EXPECT_FALSE(m.on(sum{s}, whole)); // repeated
  EXPECT_FALSE(m.sum_of(3));
  EXPECT_EQ(m.unsettled(), 3u);
  s.slice = 1;
  EXPECT_TRUE(m.on(sum{s}, whole));
  EXPECT_TRUE(m.sum_of(3).shares_storage_with(whole));
  EXPECT_TRUE(m.settled());
}

TEST(TreeParticipant, IgnoresSumsOfAnotherStepGenerationOrBucket) {
  member m{1, 2};
  m.open(2, 5);
  EXPECT_FALSE(m.contribute(0, ones(), 2)); // only replica 0 provides an output
  EXPECT_FALSE(
    member(0, 2).contribute(0, ones(), 1)); // and only for several reducers
  m.open(2, 5);
  m.contribute(0, ones(), 1);
  EXPECT_FALSE(m.on(sum{at(5, 1, 0, 1)}, ones()));
  EXPECT_FALSE(m.on(sum{at(4, 1, 0, 2)}, ones()));
  EXPECT_FALSE(m.on(sum{at(5, 1, 7, 2)}, ones()));
  EXPECT_FALSE(m.settled());
}

TEST(TreeParticipant, KeepsGatheredTensorsOfLaterStepsAndDropsOldOnes) {
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

TEST(TreeParticipant, RejectsMisuse) {
  member m{0, 2};
  m.open(1, 0);
  m.contribute(0, ones(), 1);
  EXPECT_THROW(m.contribute(0, ones(), 1), std::logic_error);
  EXPECT_THROW(m.sum_of(1), std::logic_error);
  m.gather(0, ones());
  EXPECT_THROW(m.gather(0, ones()), std::logic_error);
}

TEST(TreeParticipant, CountsEachSliceOnceAndNoUnknownSlice) {
  member m{1, 2};
  m.open(1, 0);
  m.contribute(3, ones(), 2);
  auto s = at(0, 1, 3);
  s.slices = 2;
  for (const std::uint32_t slice : {1, 1, 2, 3}) {
    s.slice = slice;
    EXPECT_FALSE(m.on(sum{s}, ones())) << slice;
  }
  s.slice = 0;
  s.slices = 1;
  EXPECT_FALSE(m.on(sum{s}, ones())) << "of another number of slices";
  s.slices = 2;
  EXPECT_TRUE(m.on(sum{s}, ones()));
  EXPECT_FALSE(m.on(sum{s}, ones())) << "it is complete";
  EXPECT_TRUE(m.settled());
}

TEST(TreeParticipant, IsDrainedWhenAllBucketsAreComplete) {
  member m{1, 2};
  m.open(1, 0);
  EXPECT_TRUE(m.settled());
  for (const std::uint32_t bucket : {4, 5})
    m.contribute(bucket, ones(), 1);
  EXPECT_EQ(m.unsettled(), 4u);
  EXPECT_TRUE(m.on(sum{at(0, 1, 4)}, ones()));
  EXPECT_FALSE(m.settled());
  EXPECT_EQ(m.unsettled(), 5u);
  m.open(1, 1);
  EXPECT_TRUE(m.settled()) << "the older step is discarded";
  EXPECT_THROW(m.sum_of(4), std::logic_error);
}

TEST(TreeParticipant, GathersInAnyOrderOfArrival) {
  member m{0, 3};
  m.open(1, 2);
  m.gather(7, ones());
  EXPECT_FALSE(m.on(share{at(2, 1, 7)}, ones())) << "one is missing";
  EXPECT_FALSE(m.on(share{at(2, 1, 7)}, ones())) << "repeated";
  EXPECT_FALSE(m.on(share{at(2, 2, 7)}, tensor{})) << "no tensor";
  EXPECT_FALSE(m.on(share{at(2, 3, 7)}, ones())) << "no such replica";
  EXPECT_FALSE(m.on(share{at(2, 2, 7, 2)}, ones())) << "of another generation";
  EXPECT_EQ(m.missing_in_gather(7), (std::vector<std::uint32_t>{2}));
  EXPECT_TRUE(m.missing_in_gather(8).empty());
  EXPECT_TRUE(m.on(share{at(2, 2, 7)}, ones()));
  EXPECT_NE(m.gathered(7), nullptr);
  EXPECT_EQ(m.gathered(8), nullptr);
}

TEST(TreeParticipant, KeepsNoTensorsOfAnotherGeneration) {
  member m{0, 2};
  m.open(1, 3);
  EXPECT_FALSE(m.on(share{at(4, 1, 2)}, ones()));
  m.open(2, 4);
  m.gather(2, ones());
  EXPECT_EQ(m.gathered(2), nullptr);
  EXPECT_TRUE(m.on(share{at(4, 1, 2, 2)}, ones()));
}
