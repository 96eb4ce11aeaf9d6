#include "troupe/tests/strategies/collective/packet_queues.hpp"

#include <gtest/gtest.h>

// Lifetime of tensors that peers read without a copy, and sizes of gathers.

using namespace troupe;
using namespace troupe::exchange;
using namespace troupe::exchange::testing;

namespace {

using ids = std::vector<std::uint32_t>;

/// Number of elements of a one-chunk bucket that one of three processes adds.
constexpr std::int64_t one_chunk = 8192;

/// Three processes, the first with two replicas, that sum one chunk. Process 0
/// adds it. Contributions and the result are sent without a copy.
struct one_sum : house {
  explicit one_sum(std::int64_t elements) : house{{0, 2, 3, 4}, 4} {
    seat(1);
    enter(0);
    for (std::uint32_t r = 0; r < 4; ++r) {
      parts.push_back(tensor::full({elements}, 1));
      of(r).contribute(r, 0, parts.back());
    }
  }
  /// Lets a process make progress until nothing moves.
  void exhaust(std::uint32_t process) {
    while (pump(process)) {
    }
  }

  tensors parts;
};

} // namespace

// -- zero copy ----------------------------------------------------------------

TEST(CollectiveZeroCopy, KeepsAResultUntilItIsReleased) {
  one_sum on{one_chunk};
  on.exhaust(1);
  on.exhaust(2);
  on.exhaust(0);
  ASSERT_TRUE(on.of(0).settled(0));
  const auto sum = on.of(0).sum_of(0, 0);
  ASSERT_FALSE(on.boxes[0]->flush()) << "no peer has read it";
  for (const std::uint32_t r : {0, 1})
    on.of(r).leave(r);
  EXPECT_FALSE(sum.unique());
  on.of(0).given_back();
  EXPECT_TRUE(sum.unique());
}

TEST(CollectiveZeroCopy, KeepsAContributionUntilItIsReleased) {
  one_sum on{one_chunk};
  on.pump_all();
  ASSERT_TRUE(on.of(2).settled(2));
  on.of(2).leave(2);
  EXPECT_FALSE(on.parts[2].unique());
  on.of(2).given_back();
  EXPECT_TRUE(on.parts[2].unique());
}

TEST(CollectiveZeroCopy, KeepsAContributionIfItsReplicaEndsTheStepTooEarly) {
  one_sum on{one_chunk};
  on.exhaust(1);
  ASSERT_FALSE(on.of(2).settled(2));
  on.of(2).leave(2);
  EXPECT_FALSE(on.parts[2].unique());
  on.of(2).given_back();
  EXPECT_TRUE(on.parts[2].unique());
}

TEST(CollectiveZeroCopy, KeepsAContributionIfANewGenerationStarts) {
  one_sum on{one_chunk};
  on.exhaust(1);
  on.of(2).seat(2, 2);
  EXPECT_FALSE(on.parts[2].unique());
  on.of(2).given_back();
  EXPECT_TRUE(on.parts[2].unique());
}

TEST(CollectiveZeroCopy, ReleasesTheLastStepWhenTheNextBegins) {
  house on{{0, 1}};
  on.seat(1);
  on.enter(0);
  const auto part = tensor::full({one_chunk}, 1);
  on.of(0).contribute(0, 0, part);
  EXPECT_TRUE(on.pump(0));
  ASSERT_TRUE(on.of(0).settled(0));
  on.leave();
  EXPECT_FALSE(on.pump(0));
  on.enter(1);
  EXPECT_TRUE(part.unique());
}

TEST(CollectiveZeroCopy, CopiesContributionsOfAllToAllBuckets) {
  one_sum on{100};
  on.exhaust(1);
  EXPECT_TRUE(on.boxes[1]->flush());
  on.of(2).leave(2);
  EXPECT_TRUE(on.parts[2].unique());
}

TEST(CollectiveZeroCopy, ReleasesContributionsWhenAllReplicasEndedTheStep) {
  one_sum on{one_chunk};
  on.pump_all();
  ASSERT_TRUE(on.settled());
  on.of(0).leave(0);
  EXPECT_FALSE(on.parts[0].unique()) << "replica 1 is still in the step";
  on.of(1).leave(1);
  EXPECT_TRUE(on.parts[0].unique());
  EXPECT_TRUE(on.parts[1].unique());
}

// -- gathers ------------------------------------------------------------------

TEST(CollectiveGather, SendsTensorsOfEverySizeInPieces) {
  constexpr std::size_t piece = most_bytes / sizeof(float);
  for (const std::size_t size :
       {std::size_t{0}, piece - 1, piece, piece + 1, 2 * piece})
    for (const bool views : {true, false}) {
      SCOPED_TRACE(std::to_string(size) + (views ? ", views" : ", fetched"));
      house on{{0, 1, 3}, 2, views};
      const auto parts = parts_of<float>(3, size, 1);
      on.seat(1);
      on.enter(0);
      for (std::uint32_t r = 0; r < 3; ++r)
        on.of(r).gather(r, 5, parts[r]);
      for (int i = 0; i < 2000 && !on.settled(); ++i)
        on.pump_all();
      ASSERT_TRUE(on.settled());
      for (std::uint32_t r = 0; r < 3; ++r)
        for (std::uint32_t from = 0; from < 3; ++from)
          ASSERT_TRUE(same_bits(on.of(r).gathered(r, 5)[from], parts[from]));
      const auto share = sizeof(share_spec) + size * sizeof(float);
      EXPECT_EQ(on.office.sent, (std::vector<std::size_t>{share, 2 * share}));
    }
}

TEST(CollectiveGather, ReportsMissingReplicas) {
  house on{{0, 1, 3}, 2};
  on.seat(1);
  on.enter(7);
  on.of(0).gather(0, 5, tensor::full({9}, 1));
  EXPECT_EQ(on.of(0).lacking(7)->replicas, (ids{1, 2}));
  for (const std::uint32_t r : {1, 2})
    on.of(r).gather(r, 5, tensor::full({9}, 1));
  EXPECT_EQ(on.of(0).incomplete(0), 5u);
  while (on.office.of(1, 0, queue::parts).size() < 2)
    ASSERT_TRUE(on.pump(1));
  while (on.pump(0)) { // receives the tensor of replica 1
  }
  const auto lack = on.of(0).lacking(7);
  ASSERT_TRUE(lack);
  EXPECT_TRUE(lack->gather);
  EXPECT_EQ(lack->processes, ids{1});
  EXPECT_EQ(lack->replicas, ids{2});
  EXPECT_TRUE(on.of(0).gathered(0, 5).empty());
  on.pump_all();
  EXPECT_EQ(on.of(0).gathered(0, 5).size(), 3u);
}

TEST(CollectiveGather, RejectsMissingAndTooLargeTensors) {
  house on{{0, 1, 2}};
  on.seat(1);
  on.enter(0);
  EXPECT_THROW(on.of(0).gather(0, 5, {}), std::logic_error);
  on.of(0).gather(0, 5, tensor::full({1}, 1));
  EXPECT_THROW(on.of(0).gather(0, 5, tensor::full({1}, 1)), std::logic_error);
  EXPECT_NO_THROW(on.of(0).gather(0, 4, tensor::full({1}, 1)));
}

TEST(CollectiveGather, ReadsSpecsUpToTheirLimits) {
  tensor_spec out;
  const tensor_spec deep{{1, 2, 1, 2, 1, 2, 1, 2}, dtype::int32};
  ASSERT_EQ(deep.dims.rank(), shape::max_rank);
  EXPECT_TRUE(read(write(deep), out));
  EXPECT_EQ(out, deep);
  constexpr auto most = std::int64_t(most_share);
  EXPECT_TRUE(read(write(tensor_spec{{most}, dtype::uint8}), out));
  EXPECT_FALSE(read(write(tensor_spec{{most + 1}, dtype::uint8}), out));
  EXPECT_TRUE(read(write(tensor_spec{{2, most / 8}, dtype::float32}), out));
  EXPECT_FALSE(
    read(write(tensor_spec{{2, most / 8 + 1}, dtype::float32}), out));
  EXPECT_TRUE(read(write(tensor_spec{{0, 7}, dtype::float32}), out));
}

// -- order --------------------------------------------------------------------

TEST(CollectiveFaults, DistinguishALostCollectiveFromADifferentOne) {
  house on{{0, 1, 2}, 4};
  on.seat(1);
  on.enter(0);
  for (const std::uint32_t bucket : {6, 7})
    for (const std::uint32_t r : {0, 1})
      on.of(r).contribute(r, bucket, tensor::full({8}, 1));
  while (on.office.of(1, 0, queue::parts).size() < 2)
    ASSERT_TRUE(on.pump(1));
  on.office.of(1, 0, queue::parts).pop_front();
  on.pump_all();
  ASSERT_TRUE(on.machines[0]->wrong());
  EXPECT_EQ(on.machines[0]->wrong()->why,
            "process 1 sent bucket 7 of 8 elements of step 0 where bucket 6 of "
            "8 elements was expected in step 0: a packet was lost, or the "
            "replicas do not call the same collectives");
}

TEST(Collective, FindsBucketsThatAreNotInOrder) {
  house on{{0, 1, 2}, 8};
  on.seat(1);
  on.enter(0);
  for (const std::uint32_t bucket : {9, 1, 0, 4})
    for (const std::uint32_t r : {0, 1})
      on.of(r).contribute(r, bucket, tensor::full({8}, float(bucket)));
  on.pump_all();
  ASSERT_TRUE(on.settled());
  for (const std::uint32_t bucket : {9, 1, 0, 4})
    EXPECT_EQ(on.of(0).sum_of(0, bucket).data<float>()[0], 2 * bucket);
  EXPECT_THROW(on.of(0).sum_of(0, 2), std::logic_error);
  EXPECT_THROW(on.of(0).contribute(0, 4, tensor::full({8}, 1)),
               std::logic_error);
  EXPECT_EQ(on.of(0).completed(), 4u);
}

TEST(Collective, DiscardsErrorsAndPartialSumsInANewGeneration) {
  one_sum on{one_chunk};
  on.exhaust(1);
  on.exhaust(
    0); // has the contribution of process 1, waits for that of process 2
  on.office.of(2, 0, queue::parts)
    .push_back({write(parcel{.epoch = 1}), {}, {}});
  on.exhaust(0);
  ASSERT_TRUE(on.machines[0]->wrong());
  on.seat(2);
  EXPECT_FALSE(on.machines[0]->wrong());
  on.enter(0);
  for (std::uint32_t r = 0; r < 4; ++r)
    on.of(r).contribute(r, 0, tensor::full({one_chunk}, 2));
  on.pump_all();
  ASSERT_TRUE(on.settled());
  for (std::uint32_t r = 0; r < 4; ++r)
    EXPECT_EQ(on.of(r).sum_of(r, 0).data<float>()[one_chunk - 1], 8);
}

TEST(Collective, CountsNoBucketsOfThePreviousStep) {
  house on{{0, 1, 2}, 8};
  on.seat(1);
  for (std::uint64_t step = 0; step < 2; ++step) {
    on.enter(step);
    for (const std::uint32_t bucket : {0, 1}) {
      EXPECT_TRUE(on.of(0).complete(0));
      on.of(0).contribute(0, bucket, tensor::full({8}, 1));
      EXPECT_FALSE(on.of(0).complete(0));
      EXPECT_EQ(on.of(0).incomplete(0), bucket);
      on.of(1).contribute(1, bucket, tensor::full({8}, 1));
      on.pump_all();
      EXPECT_TRUE(on.of(0).complete(0));
    }
    ASSERT_TRUE(on.settled());
    on.leave();
  }
}

TEST(Collective, NamesTheFirstContributorIfAnotherReplicaDiffers) {
  house on{{0, 2, 3}};
  on.seat(1);
  on.enter(4);
  on.of(1).contribute(1, 3, tensor::full({8}, 1));
  try {
    on.of(0).contribute(0, 3, tensor::full({9}, 1));
    ADD_FAILURE() << "no error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "replica 0 contributed bucket 3 of float32[9] as operation 0 "
                 "of step 4, replica 1 bucket 3 of float32[8] as operation 0 "
                 "of step 4: the replicas do not call the same collectives");
  }
}

TEST(Collective, AcceptsNoContributionOfAnotherGeneration) {
  house on{{0, 1, 2}};
  EXPECT_FALSE(on.pump(0)) << "no generation has started";
  on.seat(2);
  on.enter(0);
  for (const std::uint32_t r : {0, 1})
    on.of(r).contribute(r, 0, tensor::full({8}, 1));
  on.of(0).seat(0, 2); // repeated
  on.pump_all();
  EXPECT_TRUE(on.of(0).sum_of(0, 0));
  on.of(0).seat(0, 3);
  EXPECT_TRUE(on.of(0).current(0));
  EXPECT_FALSE(on.pump(0));
  EXPECT_THROW(on.of(0).sum_of(0, 0), std::logic_error);
}
