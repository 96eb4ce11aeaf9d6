#include "troupe/strategies/tree/participant.hpp"
#include "troupe/tests/strategies/tree/messages.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::tree;
using namespace troupe::tree::testing;

TEST(TreeParticipant, HasASumWhenAllSlicesHaveArrived) {
  participant m{0, 2};
  m.begin_step(1, 0);
  const auto input = ones(), whole = ones();
  EXPECT_TRUE(m.contribute(3, input, 2)); // replica 0 provides the output
  auto s = key_of(0, 0, 3);
  s.slices = 2;
  EXPECT_FALSE(m.on(reduced_slice{s}, whole));
  EXPECT_FALSE(m.on(reduced_slice{s}, whole)); // repeated
  EXPECT_FALSE(m.sum_of(3));
  EXPECT_EQ(m.first_incomplete(), 3u);
  s.slice = 1;
  EXPECT_TRUE(m.on(reduced_slice{s}, whole));
  EXPECT_TRUE(m.sum_of(3).shares_storage_with(whole));
  EXPECT_TRUE(m.is_drained());
}

TEST(TreeParticipant, IgnoresSumsOfAnotherStepGenerationOrBucket) {
  participant m{1, 2};
  m.begin_step(2, 5);
  EXPECT_FALSE(m.contribute(0, ones(), 2)); // only replica 0 provides an output
  EXPECT_FALSE(participant(0, 2).contribute(
    0, ones(), 1)); // with one reducer no replica provides an output
  m.begin_step(2, 5);
  m.contribute(0, ones(), 1);
  EXPECT_FALSE(m.on(reduced_slice{key_of(5, 1, 0, 1)}, ones()));
  EXPECT_FALSE(m.on(reduced_slice{key_of(4, 1, 0, 2)}, ones()));
  EXPECT_FALSE(m.on(reduced_slice{key_of(5, 1, 7, 2)}, ones()));
  EXPECT_FALSE(m.is_drained());
}

TEST(TreeParticipant, KeepsGatheredTensorsOfLaterStepsAndDropsOldOnes) {
  participant m{0, 2};
  m.begin_step(1, 3);
  EXPECT_FALSE(m.on(gather_contribution{key_of(4, 1, 2)}, ones()));
  EXPECT_FALSE(m.on(gather_contribution{key_of(2, 1, 2)}, ones()));
  m.gather(2, ones());
  EXPECT_EQ(m.gathered(2), nullptr);
  EXPECT_EQ(m.missing_in_gather(2), (std::vector<std::uint32_t>{1}));
  EXPECT_TRUE(m.on(gather_contribution{key_of(3, 1, 2)}, ones()));
  EXPECT_NE(m.gathered(2), nullptr);
  m.begin_step(1, 4);
  EXPECT_EQ(m.gathered(2), nullptr);
  m.gather(2, ones());
  EXPECT_NE(m.gathered(2), nullptr);
}

TEST(TreeParticipant, RejectsMisuse) {
  participant m{0, 2};
  m.begin_step(1, 0);
  m.contribute(0, ones(), 1);
  EXPECT_THROW(m.contribute(0, ones(), 1), std::logic_error);
  EXPECT_THROW(m.sum_of(1), std::logic_error);
  m.gather(0, ones());
  EXPECT_THROW(m.gather(0, ones()), std::logic_error);
}

TEST(TreeParticipant, CountsEachSliceOnceAndNoUnknownSlice) {
  participant m{1, 2};
  m.begin_step(1, 0);
  m.contribute(3, ones(), 2);
  auto s = key_of(0, 1, 3);
  s.slices = 2;
  for (const std::uint32_t slice : {1, 1, 2, 3}) {
    s.slice = slice;
    EXPECT_FALSE(m.on(reduced_slice{s}, ones())) << slice;
  }
  s.slice = 0;
  s.slices = 1;
  EXPECT_FALSE(m.on(reduced_slice{s}, ones())) << "of another number of slices";
  s.slices = 2;
  EXPECT_TRUE(m.on(reduced_slice{s}, ones()));
  EXPECT_FALSE(m.on(reduced_slice{s}, ones())) << "it is complete";
  EXPECT_TRUE(m.is_drained());
}

TEST(TreeParticipant, IsDrainedWhenAllBucketsAreComplete) {
  participant m{1, 2};
  m.begin_step(1, 0);
  EXPECT_TRUE(m.is_drained());
  for (const std::uint32_t bucket : {4, 5})
    m.contribute(bucket, ones(), 1);
  EXPECT_EQ(m.first_incomplete(), 4u);
  EXPECT_TRUE(m.on(reduced_slice{key_of(0, 1, 4)}, ones()));
  EXPECT_FALSE(m.is_drained());
  EXPECT_EQ(m.first_incomplete(), 5u);
  m.begin_step(1, 1);
  EXPECT_TRUE(m.is_drained()) << "the older step is discarded";
  EXPECT_THROW(m.sum_of(4), std::logic_error);
}

TEST(TreeParticipant, GathersInAnyOrderOfArrival) {
  participant m{0, 3};
  m.begin_step(1, 2);
  m.gather(7, ones());
  EXPECT_FALSE(m.on(gather_contribution{key_of(2, 1, 7)}, ones()))
    << "one is missing";
  EXPECT_FALSE(m.on(gather_contribution{key_of(2, 1, 7)}, ones()))
    << "repeated";
  EXPECT_FALSE(m.on(gather_contribution{key_of(2, 2, 7)}, tensor{}))
    << "no tensor";
  EXPECT_FALSE(m.on(gather_contribution{key_of(2, 3, 7)}, ones()))
    << "no such replica";
  EXPECT_FALSE(m.on(gather_contribution{key_of(2, 2, 7, 2)}, ones()))
    << "of another generation";
  EXPECT_EQ(m.missing_in_gather(7), (std::vector<std::uint32_t>{2}));
  EXPECT_TRUE(m.missing_in_gather(8).empty());
  EXPECT_TRUE(m.on(gather_contribution{key_of(2, 2, 7)}, ones()));
  EXPECT_NE(m.gathered(7), nullptr);
  EXPECT_EQ(m.gathered(8), nullptr);
}

TEST(TreeParticipant, KeepsNoTensorsOfAnotherGeneration) {
  participant m{0, 2};
  m.begin_step(1, 3);
  EXPECT_FALSE(m.on(gather_contribution{key_of(4, 1, 2)}, ones()));
  m.begin_step(2, 4);
  m.gather(2, ones());
  EXPECT_EQ(m.gathered(2), nullptr);
  EXPECT_TRUE(m.on(gather_contribution{key_of(4, 1, 2, 2)}, ones()));
}

namespace {

slice_key gather_key(std::uint64_t step, std::uint32_t sequence,
                     std::uint64_t generation = 1) {
  auto key = key_of(step, 1, 2, generation);
  key.sequence = sequence;
  return key;
}

} // namespace

// The gather of the other replica may arrive before or after this replica's
// call, and a step early.
TEST(TreeParticipant, NamesAGatherWhereItSums) {
  for (const bool early : {true, false}) {
    participant m{0, 2};
    m.begin_step(1, 3);
    const auto receive = [&] {
      m.on(gather_contribution{gather_key(4, 1)},
           tensor::zeros({2, 3}, dtype::int32));
    };
    if (early)
      receive();
    m.begin_step(1, 4);
    m.contribute(0, ones(), 1);
    m.contribute(1, ones(), 1);
    if (!early)
      receive();
    ASSERT_TRUE(m.difference()) << "early: " << early;
    EXPECT_EQ(*m.difference(),
              "replica 1 called gather 2 of int32[2, 3] as operation 1 of step "
              "4, replica 0 bucket 1 of float32[4]: the replicas do not call "
              "the same collectives");
    m.begin_step(2, 4);
    EXPECT_FALSE(m.difference()) << "of an older generation";
  }
}

TEST(TreeParticipant, ComparesOnlyCallsAtTheSamePlaceOfTheSameStep) {
  participant m{0, 2};
  m.begin_step(1, 3);
  m.contribute(0, ones(), 1);
  m.on(gather_contribution{gather_key(2, 0)}, ones());
  m.on(gather_contribution{gather_key(4, 0)}, ones());
  m.on(gather_contribution{gather_key(3, 1)}, ones());
  m.on(gather_contribution{gather_key(3, 0, 2)}, ones());
  EXPECT_FALSE(m.difference());
  m.gather(2, ones(7)); // specs of gathered tensors may differ
  EXPECT_FALSE(m.difference());
}

TEST(TreeParticipant, NamesTheOptionsOfAGatherThatDiffer) {
  participant m{0, 2};
  m.begin_step(1, 3);
  m.gather(2, ones(), {.tensors = 1});
  auto key = gather_key(3, 0);
  key.options.tensors = 2;
  m.on(gather_contribution{key}, ones());
  ASSERT_TRUE(m.difference());
  EXPECT_EQ(*m.difference(),
            "replica 1 called gather 2 of float32[4] by tree for 2 tensors as "
            "operation 0 of step 3, replica 0 gather 2 of float32[4] by tree "
            "for 1 tensor: the replicas do not pass the same options");
}
