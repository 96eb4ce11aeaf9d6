#include "troupe/tests/strategies/collective/packet_queues.hpp"

#include <gtest/gtest.h>

// Tests the lifetime of tensors that peers read without a copy. Also tests
// all-gathers of tensors of all sizes.

using namespace troupe;
using namespace troupe::collective;
using namespace troupe::collective::testing;

namespace {

using ids = std::vector<std::uint32_t>;

/// Number of elements of a bucket that one of the three processes adds as one
/// chunk. The bucket is too large for `chunking::all_to_all`, in which every
/// process computes the whole sum itself.
constexpr std::int64_t one_chunk = 8192;

/// Three processes sum one chunk, which process 0 adds. Process 0 has two
/// replicas, the other processes have one. Contributions and the result are
/// sent without a copy.
struct one_sum : process_group {
  explicit one_sum(std::int64_t elements) : process_group{{0, 2, 3, 4}, 4} {
    begin_generation(1);
    begin_step(0);
    for (std::uint32_t r = 0; r < 4; ++r) {
      inputs.push_back(tensor::full({elements}, 1));
      machine_of(r).contribute(r, 0, inputs.back());
    }
  }
  /// Lets a process make progress until it can make no more.
  void progress_until_idle(std::uint32_t process) {
    while (progress(process)) {
    }
  }

  tensors inputs;
};

} // namespace

// -- zero copy ----------------------------------------------------------------

TEST(CollectiveZeroCopy, KeepsAResultUntilItIsReleased) {
  one_sum setup{one_chunk};
  setup.progress_until_idle(1);
  setup.progress_until_idle(2);
  setup.progress_until_idle(0);
  ASSERT_TRUE(setup.machine_of(0).is_drained(0));
  const auto sum = setup.machine_of(0).sum_of(0, 0);
  ASSERT_FALSE(setup.transports[0]->all_read()) << "no peer has read it";
  for (const std::uint32_t r : {0, 1})
    setup.machine_of(r).end_step(r);
  EXPECT_FALSE(sum.unique());
  setup.machine_of(0).release_zero_copy();
  EXPECT_TRUE(sum.unique());
}

TEST(CollectiveZeroCopy, KeepsAContributionUntilItIsReleased) {
  one_sum setup{one_chunk};
  setup.progress_all();
  ASSERT_TRUE(setup.machine_of(2).is_drained(2));
  setup.machine_of(2).end_step(2);
  EXPECT_FALSE(setup.inputs[2].unique());
  setup.machine_of(2).release_zero_copy();
  EXPECT_TRUE(setup.inputs[2].unique());
}

TEST(CollectiveZeroCopy, KeepsAContributionIfItsReplicaEndsTheStepTooEarly) {
  one_sum setup{one_chunk};
  setup.progress_until_idle(1);
  ASSERT_FALSE(setup.machine_of(2).is_drained(2));
  setup.machine_of(2).end_step(2);
  EXPECT_FALSE(setup.inputs[2].unique());
  setup.machine_of(2).release_zero_copy();
  EXPECT_TRUE(setup.inputs[2].unique());
}

TEST(CollectiveZeroCopy, KeepsAContributionIfANewGenerationStarts) {
  one_sum setup{one_chunk};
  setup.progress_until_idle(1);
  setup.machine_of(2).begin_generation(2, 2);
  EXPECT_FALSE(setup.inputs[2].unique());
  setup.machine_of(2).release_zero_copy();
  EXPECT_TRUE(setup.inputs[2].unique());
}

TEST(CollectiveZeroCopy, ReleasesTheLastStepWhenTheNextBegins) {
  process_group group{{0, 1}};
  group.begin_generation(1);
  group.begin_step(0);
  const auto input = tensor::full({one_chunk}, 1);
  group.machine_of(0).contribute(0, 0, input);
  EXPECT_TRUE(group.progress(0));
  ASSERT_TRUE(group.machine_of(0).is_drained(0));
  group.end_step();
  EXPECT_FALSE(group.progress(0));
  group.begin_step(1);
  EXPECT_TRUE(input.unique());
}

TEST(CollectiveZeroCopy, CopiesContributionsOfAllToAllBuckets) {
  one_sum setup{100};
  setup.progress_until_idle(1);
  EXPECT_TRUE(setup.transports[1]->all_read());
  setup.machine_of(2).end_step(2);
  EXPECT_TRUE(setup.inputs[2].unique());
}

TEST(CollectiveZeroCopy, ReleasesContributionsWhenAllReplicasEndedTheStep) {
  one_sum setup{one_chunk};
  setup.progress_all();
  ASSERT_TRUE(setup.is_drained());
  setup.machine_of(0).end_step(0);
  EXPECT_FALSE(setup.inputs[0].unique()) << "replica 1 is still in the step";
  setup.machine_of(1).end_step(1);
  EXPECT_TRUE(setup.inputs[0].unique());
  EXPECT_TRUE(setup.inputs[1].unique());
}

// -- gathers ------------------------------------------------------------------

TEST(CollectiveGather, SendsTensorsOfEverySizeInPieces) {
  constexpr std::size_t piece = max_packet_bytes / sizeof(float);
  for (const std::size_t size :
       {std::size_t{0}, piece - 1, piece, piece + 1, 2 * piece})
    for (const bool views : {true, false}) {
      SCOPED_TRACE(std::to_string(size) + (views ? ", views" : ", fetched"));
      process_group group{{0, 1, 3}, 2, views};
      const auto inputs = inputs_of<float>(3, size, 1);
      group.begin_generation(1);
      group.begin_step(0);
      for (std::uint32_t r = 0; r < 3; ++r)
        group.machine_of(r).gather(r, 5, inputs[r]);
      for (int i = 0; i < 2000 && !group.is_drained(); ++i)
        group.progress_all();
      ASSERT_TRUE(group.is_drained());
      for (std::uint32_t r = 0; r < 3; ++r)
        for (std::uint32_t from = 0; from < 3; ++from)
          ASSERT_TRUE(
            same_bits(group.machine_of(r).gathered(r, 5)[from], inputs[from]));
      const auto share = sizeof(gather_spec) + size * sizeof(float);
      EXPECT_EQ(group.queues.sent,
                (std::vector<std::size_t>{share, 2 * share}));
    }
}

TEST(CollectiveGather, ReportsMissingReplicas) {
  process_group group{{0, 1, 3}, 2};
  group.begin_generation(1);
  group.begin_step(7);
  group.machine_of(0).gather(0, 5, tensor::full({9}, 1));
  EXPECT_EQ(group.machine_of(0).missing(7)->replicas, (ids{1, 2}));
  for (const std::uint32_t r : {1, 2})
    group.machine_of(r).gather(r, 5, tensor::full({9}, 1));
  EXPECT_EQ(group.machine_of(0).first_incomplete(0), 5u);
  while (group.queues.between(1, 0, lane_id::contributions).size() < 2)
    ASSERT_TRUE(group.progress(1));
  while (group.progress(0)) { // receives the tensor of replica 1
  }
  const auto lack = group.machine_of(0).missing(7);
  ASSERT_TRUE(lack);
  EXPECT_TRUE(lack->gather);
  EXPECT_EQ(lack->processes, ids{1});
  EXPECT_EQ(lack->replicas, ids{2});
  EXPECT_TRUE(group.machine_of(0).gathered(0, 5).empty());
  group.progress_all();
  EXPECT_EQ(group.machine_of(0).gathered(0, 5).size(), 3u);
}

TEST(CollectiveGather, RejectsMissingAndTooLargeTensors) {
  process_group group{{0, 1, 2}};
  group.begin_generation(1);
  group.begin_step(0);
  EXPECT_THROW(group.machine_of(0).gather(0, 5, {}), std::logic_error);
  group.machine_of(0).gather(0, 5, tensor::full({1}, 1));
  EXPECT_THROW(group.machine_of(0).gather(0, 5, tensor::full({1}, 1)),
               std::logic_error);
  EXPECT_NO_THROW(group.machine_of(0).gather(0, 4, tensor::full({1}, 1)));
}

TEST(CollectiveGather, ReadsSpecsUpToTheirLimits) {
  tensor_spec out;
  const tensor_spec deep{{1, 2, 1, 2, 1, 2, 1, 2}, dtype::int32};
  ASSERT_EQ(deep.dims.rank(), shape::max_rank);
  EXPECT_TRUE(read(write(deep), out));
  EXPECT_EQ(out, deep);
  constexpr auto most = std::int64_t(max_gather_bytes);
  EXPECT_TRUE(read(write(tensor_spec{{most}, dtype::uint8}), out));
  EXPECT_FALSE(read(write(tensor_spec{{most + 1}, dtype::uint8}), out));
  EXPECT_TRUE(read(write(tensor_spec{{2, most / 8}, dtype::float32}), out));
  EXPECT_FALSE(
    read(write(tensor_spec{{2, most / 8 + 1}, dtype::float32}), out));
  EXPECT_TRUE(read(write(tensor_spec{{0, 7}, dtype::float32}), out));
}

// -- order --------------------------------------------------------------------

TEST(CollectiveFaults, DistinguishALostCollectiveFromADifferentOne) {
  process_group group{{0, 1, 2}, 4};
  group.begin_generation(1);
  group.begin_step(0);
  for (const std::uint32_t bucket : {6, 7})
    for (const std::uint32_t r : {0, 1})
      group.machine_of(r).contribute(r, bucket, tensor::full({8}, 1));
  while (group.queues.between(1, 0, lane_id::contributions).size() < 2)
    ASSERT_TRUE(group.progress(1));
  group.queues.between(1, 0, lane_id::contributions).pop_front();
  group.progress_all();
  ASSERT_TRUE(group.machines[0]->error());
  EXPECT_EQ(group.machines[0]->error()->reason,
            "it sent bucket 7 of 8 elements of step 0 where bucket 6 of "
            "8 elements was expected in step 0: a packet was lost, or the "
            "replicas do not call the same collectives");
}

TEST(Collective, FindsBucketsThatAreNotInOrder) {
  process_group group{{0, 1, 2}, 8};
  group.begin_generation(1);
  group.begin_step(0);
  for (const std::uint32_t bucket : {9, 1, 0, 4})
    for (const std::uint32_t r : {0, 1})
      group.machine_of(r).contribute(r, bucket,
                                     tensor::full({8}, float(bucket)));
  group.progress_all();
  ASSERT_TRUE(group.is_drained());
  for (const std::uint32_t bucket : {9, 1, 0, 4})
    EXPECT_EQ(group.machine_of(0).sum_of(0, bucket).data<float>()[0],
              2 * bucket);
  EXPECT_THROW(group.machine_of(0).sum_of(0, 2), std::logic_error);
  EXPECT_THROW(group.machine_of(0).contribute(0, 4, tensor::full({8}, 1)),
               std::logic_error);
  EXPECT_EQ(group.machine_of(0).completed(), 4u);
}

TEST(Collective, DiscardsErrorsAndPartialSumsInANewGeneration) {
  one_sum setup{one_chunk};
  setup.progress_until_idle(1);
  setup.progress_until_idle(
    0); // has the contribution of process 1, and waits for process 2
  setup.queues.between(2, 0, lane_id::contributions)
    .push_back({write(packet_header{.generation = 1}), {}, {}});
  setup.progress_until_idle(0);
  ASSERT_TRUE(setup.machines[0]->error());
  setup.begin_generation(2);
  EXPECT_FALSE(setup.machines[0]->error());
  setup.begin_step(0);
  for (std::uint32_t r = 0; r < 4; ++r)
    setup.machine_of(r).contribute(r, 0, tensor::full({one_chunk}, 2));
  setup.progress_all();
  ASSERT_TRUE(setup.is_drained());
  for (std::uint32_t r = 0; r < 4; ++r)
    EXPECT_EQ(setup.machine_of(r).sum_of(r, 0).data<float>()[one_chunk - 1], 8);
}

TEST(Collective, CountsNoBucketsOfThePreviousStep) {
  process_group group{{0, 1, 2}, 8};
  group.begin_generation(1);
  for (std::uint64_t step = 0; step < 2; ++step) {
    group.begin_step(step);
    for (const std::uint32_t bucket : {0, 1}) {
      EXPECT_TRUE(group.machine_of(0).is_complete(0));
      group.machine_of(0).contribute(0, bucket, tensor::full({8}, 1));
      EXPECT_FALSE(group.machine_of(0).is_complete(0));
      EXPECT_EQ(group.machine_of(0).first_incomplete(0), bucket);
      group.machine_of(1).contribute(1, bucket, tensor::full({8}, 1));
      group.progress_all();
      EXPECT_TRUE(group.machine_of(0).is_complete(0));
    }
    ASSERT_TRUE(group.is_drained());
    group.end_step();
  }
}

TEST(Collective, NamesTheFirstContributorIfAnotherReplicaDiffers) {
  process_group group{{0, 2, 3}};
  group.begin_generation(1);
  group.begin_step(4);
  group.machine_of(1).contribute(1, 3, tensor::full({8}, 1));
  try {
    group.machine_of(0).contribute(0, 3, tensor::full({9}, 1));
    ADD_FAILURE() << "no error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "replica 0 contributed bucket 3 of float32[9] as operation 0 "
                 "of step 4, replica 1 bucket 3 of float32[8] as operation 0 "
                 "of step 4: the replicas do not call the same collectives");
  }
}

TEST(Collective, AcceptsNoContributionOfAnotherGeneration) {
  process_group group{{0, 1, 2}};
  EXPECT_FALSE(group.progress(0)) << "no generation has started";
  group.begin_generation(2);
  group.begin_step(0);
  for (const std::uint32_t r : {0, 1})
    group.machine_of(r).contribute(r, 0, tensor::full({8}, 1));
  group.machine_of(0).begin_generation(0, 2); // a repeated call
  group.progress_all();
  EXPECT_TRUE(group.machine_of(0).sum_of(0, 0));
  group.machine_of(0).begin_generation(0, 3);
  EXPECT_TRUE(group.machine_of(0).is_current(0));
  EXPECT_FALSE(group.progress(0));
  EXPECT_THROW(group.machine_of(0).sum_of(0, 0), std::logic_error);
}
