#include "troupe/tests/strategies/collective/packet_queues.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

using namespace troupe;
using namespace troupe::collective;
using namespace troupe::collective::testing;

namespace {

template <class F>
std::string refusal(F&& fn) {
  try {
    fn();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "";
}

/// Two processes with one replica each, which sum a bucket. Process 1 has sent
/// as many packets as its queue holds.
struct started_sum : process_group {
  explicit started_sum(std::int64_t elements) : process_group{{0, 1, 2}} {
    begin_generation(1);
    begin_step(0);
    for (std::uint32_t r = 0; r < 2; ++r)
      machine_of(r).contribute(r, 0, ones(elements));
    progress(1);
  }
};

} // namespace

// -- differences --------------------------------------------------------------

TEST(CollectiveFaults, NameBothCollectivesIfProcessesDiffer) {
  process_group group{{0, 1, 2, 3}};
  group.begin_generation(1);
  group.begin_step(3);
  group.machine_of(0).contribute(0, 6, ones(1024));
  group.machine_of(2).contribute(2, 7, ones(4096));
  group.progress_all();
  EXPECT_EQ(group.machines[0]->error()->process, 2u);
  EXPECT_EQ(reason_of(*group.machines[0]),
            "it sent bucket 7 of 4096 elements of float32 of replicas [2, 3) "
            "as operation 0 of step 3 where replica 0 called bucket 6 of "
            "float32[1024]: the replicas do not call the same collectives");
}

TEST(CollectiveFaults, NameTheTypesAndGathersThatDiffer) {
  process_group group{{0, 1, 2, 3}};
  group.begin_generation(1);
  group.begin_step(3);
  group.machine_of(0).contribute(0, 6, ones(8));
  group.machine_of(1).contribute(1, 6, tensor::zeros({8}, dtype::float64));
  group.machine_of(2).gather(2, 6, ones(8));
  group.progress_all();
  EXPECT_EQ(reason_of(*group.machines[0]),
            "it sent bucket 6 of 8 elements of float64 of replicas [1, 2) as "
            "operation 0 of step 3 where replica 0 called bucket 6 of "
            "float32[8]: the replicas do not pass the same shapes and dtypes");
  EXPECT_EQ(reason_of(*group.machines[2]),
            "it sent bucket 6 of 8 elements of float32 of replicas [0, "
            "1) as operation 0 of step 3 where replica 2 called gather 6 of "
            "float32[8]: the replicas do not call the same collectives");
}

TEST(CollectiveFaults, NameTheSpecOfAGatherWhereASumIsExpected) {
  process_group group{{0, 1, 3}};
  group.begin_generation(1);
  group.begin_step(3);
  for (const std::uint32_t r : {1, 2})
    group.machine_of(r).gather(r, 2, tensor::zeros({4, 2}, dtype::int32));
  group.machine_of(0).contribute(0, 2, ones(8));
  group.progress_all();
  EXPECT_EQ(reason_of(*group.machines[0]),
            "it sent gather 2 of int32[4, 2] of replicas [1, 2) as "
            "operation 0 of step 3 where replica 0 called bucket 2 of "
            "float32[8]: the replicas do not call the same collectives");
  EXPECT_EQ(reason_of(*group.machines[1]),
            "it sent bucket 2 of 8 elements of float32 of replicas [0, "
            "1) as operation 0 of step 3 where replica 1 called gather 2 of "
            "int32[4, 2]: the replicas do not call the same collectives");
}

TEST(CollectiveFaults, NameAStepWithAMissingCollective) {
  process_group group{{0, 1, 2}};
  group.begin_generation(1);
  group.begin_step(0);
  group.machine_of(0).contribute(0, 0, ones(8));
  group.machine_of(1).begin_step(1, 1);
  group.machine_of(1).contribute(1, 0, ones(8));
  group.progress_all();
  EXPECT_EQ(reason_of(*group.machines[0]),
            "it sent bucket 0 of 8 elements of step 1 where bucket 0 of "
            "8 elements was expected in step 0: a packet was lost, or the "
            "replicas do not call the same collectives");
}

TEST(CollectiveFaults, NameALostPacket) {
  started_sum on{1 << 20};
  on.queues.between(1, 0, lane_id::contributions).pop_front();
  on.progress_all();
  EXPECT_EQ(
    reason_of(*on.machines[0]),
    "it sent a contribution to chunk 2 of bucket 0 of 1048576 elements "
    "of replicas [1, 2) where a contribution to chunk 0 of bucket 0 of 1048576 "
    "elements of replicas [1, 2) was expected in step 0: a packet was lost");
}

TEST(CollectiveFaults, RejectAContributionThatIsTooShort) {
  started_sum on{10};
  on.queues.between(1, 0, lane_id::contributions)
    .front()
    .private_copy()
    .resize(39);
  on.progress_all();
  EXPECT_EQ(reason_of(*on.machines[0]),
            "it sent 39 bytes where 40 were expected");
  EXPECT_FALSE(on.progress(0));
}

TEST(CollectiveFaults, RejectDifferentCallsOfLocalReplicas) {
  process_group group{{0, 2}};
  group.begin_generation(1);
  group.begin_step(4);
  auto& machine = group.machine_of(0);
  machine.contribute(0, 3, ones(8));
  EXPECT_EQ(refusal([&] { machine.contribute(1, 3, ones(9)); }),
            "replica 1 contributed bucket 3 of float32[9] as operation 0 of "
            "step 4, replica 0 bucket 3 of float32[8] as operation 0 of step "
            "4: the replicas do not call the same collectives");
  EXPECT_NE(refusal([&] { machine.contribute(1, 4, ones(8)); }), "");
  EXPECT_EQ(refusal([&] { machine.gather(1, 3, ones(8)); }),
            "replica 1 contributed gather 3 of float32[8] as operation 0 of "
            "step 4, replica 0 bucket 3 of float32[8] as operation 0 of step "
            "4: the replicas do not call the same collectives");
  EXPECT_EQ(refusal([&] { machine.contribute(0, 3, ones(8)); }),
            "bucket 3 was contributed to twice in a step");
  EXPECT_EQ(refusal([&] { machine.sum_of(1, 5); }),
            "the sum of bucket 5 was requested before a contribution to it");
  EXPECT_EQ(refusal([&] { machine.contribute(1, 3, {}); }),
            "bucket 3 is not of float32 or float64");
  EXPECT_EQ(refusal([] {
              state_machine{{placement::contiguous({1, 0}), 0}};
            }),
            "process 1 of a collective has no replica");
}

TEST(CollectiveFaults, RejectAGatherSpecBeforeMemoryIsAllocated) {
  const auto good = write(tensor_spec{{3, 4}, dtype::int64});
  tensor_spec out;
  ASSERT_TRUE(read(good, out));
  EXPECT_EQ(out, (tensor_spec{{3, 4}, dtype::int64}));
  auto bad = good;
  bad[0] = std::byte{9};
  EXPECT_FALSE(read(bad, out));
  bad = good;
  bad[1] = std::byte{dtype_count};
  EXPECT_FALSE(read(bad, out));
  for (const std::size_t byte : {13, 15, 22, 23}) { // extents of 2^40 and more
    bad = good;
    bad[byte] = std::byte{0xff};
    EXPECT_FALSE(read(bad, out)) << byte;
  }
  EXPECT_FALSE(
    read(write(tensor_spec{{1 << 14, 1 << 14, 2}, dtype::float32}), out));
  process_group group{{0, 1, 2}};
  group.begin_generation(1);
  group.begin_step(0);
  for (std::uint32_t r = 0; r < 2; ++r)
    group.machine_of(r).gather(r, 0, ones(2));
  group.progress(1);
  group.queues.between(1, 0, lane_id::contributions)
    .front()
    .private_copy()[12] = std::byte{1};
  group.progress_all();
  EXPECT_EQ(reason_of(*group.machines[0]),
            "it sent a contribution to gather 0 "
            "whose tensor spec is invalid or too large");
}

// -- stale packets ------------------------------------------------------------

TEST(CollectiveFaults, IgnoreARepeatedPacket) {
  for (const bool views : {true, false}) {
    process_group group{{0, 1, 2}, 4, views};
    group.begin_generation(1);
    group.begin_step(0);
    for (std::uint32_t r = 0; r < 2; ++r) {
      group.machine_of(r).contribute(r, 0, ones(100'000));
      group.machine_of(r).gather(r, 1, ones(5));
    }
    for (int i = 0; i < 400; ++i) {
      group.progress(0);
      group.progress(1);
      for (auto& q : group.queues.queues)
        if (!q.empty() && q.size() < 4 && group.queues.random() % 2)
          q.push_back(q.back());
    }
    for (int i = 0; i < 2000 && !group.is_drained(); ++i) {
      group.progress(0);
      group.progress(1);
    }
    ASSERT_EQ(reason_of(*group.machines[0]), "nothing is wrong");
    ASSERT_TRUE(group.is_drained());
    EXPECT_EQ(group.machine_of(0).sum_of(0, 0).data<float>()[99'999], 2);
    EXPECT_EQ(group.machine_of(1).gathered(1, 1)[0].size(), 5u);
  }
}

TEST(CollectiveFaults, DropPacketsOfOlderGenerationsAndKeepThoseOfNewer) {
  for (std::uint64_t seed = 0; seed < test::seeds_of(40); ++seed)
    for (const bool views : {true, false}) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937_64 rng{seed};
      process_group group{{0, 2, 3}, 1 + rng() % 3, views, seed};
      group.begin_generation(1);
      group.begin_step(0);
      for (std::uint32_t r = 0; r < 3; ++r) {
        group.machine_of(r).contribute(r, 0, ones(100'000));
        group.machine_of(r).gather(r, 1, ones(70'000));
      }
      for (auto turns = rng() % 60; turns > 0; --turns)
        group.progress(std::uint32_t(rng() % 2));
      for (std::uint32_t r = 0; r < 3; ++r)
        group.machine_of(r).end_step(
          r); // the step is not drained: aborts the generation
      EXPECT_FALSE(group.progress(0) && !group.is_drained());
      // Process 1 enters generation 2 first. It hosts replica 2.
      group.machine_of(2).begin_generation(2, 2);
      group.machine_of(2).begin_step(2, 0);
      group.machine_of(2).contribute(2, 0, tensor::full({100'000}, 5));
      while (group.progress(1)) {
      }
      group.machine_of(0).begin_generation(0, 2);
      group.machine_of(0).begin_step(0, 0);
      group.machine_of(0).contribute(0, 0, tensor::full({100'000}, 6));
      EXPECT_FALSE(group.machine_of(1).is_current(1));
      group.machine_of(1).contribute(1, 0,
                                     ones(3)); // ignored: still in generation 1
      group.progress_all();
      EXPECT_FALSE(group.machine_of(0).sum_of(0, 0));
      group.machine_of(1).begin_generation(1, 2);
      group.machine_of(1).begin_step(1, 0);
      group.machine_of(1).contribute(1, 0, tensor::full({100'000}, 7));
      for (int i = 0; i < 300 && !group.is_drained(); ++i)
        group.progress_all();
      ASSERT_EQ(reason_of(*group.machines[0]), "nothing is wrong");
      ASSERT_EQ(reason_of(*group.machines[1]), "nothing is wrong");
      ASSERT_TRUE(group.is_drained());
      for (std::uint32_t r = 0; r < 3; ++r)
        for (const auto v : group.machine_of(r).sum_of(r, 0).data<float>())
          ASSERT_EQ(v, 18);
    }
}

TEST(CollectiveFaults, ReadNoDataOfAnAbortedStepIntoAReusedBuffer) {
  std::size_t in_part = 0; // number of runs in which a result was partly read
  for (std::uint64_t seed = 0; seed < test::seeds_of(40); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng{seed};
    process_group group{{0, 1, 2}, 1 + rng() % 3, false, seed};
    const std::vector<tensor> buffers{ones(300'000), ones(300'000)};
    const auto all_are = [&](std::uint32_t r, float value) {
      const auto x = buffers[r].data<float>();
      return std::ranges::all_of(x, [=](float v) { return v == value; });
    };
    const auto bring = [&](std::uint64_t generation, std::uint32_t r,
                           float value) {
      group.machine_of(r).begin_generation(r, generation);
      group.machine_of(r).begin_step(r, 7);
      std::ranges::fill(tensor{buffers[r]}.mutable_data<float>(), value);
      group.machine_of(r).contribute(r, 0, buffers[r], {},
                                     output_placement::in_place);
    };
    for (std::uint32_t r = 0; r < 2; ++r)
      bring(1, r, float(r + 1));
    for (auto turns = rng() % 60; turns > 0; --turns)
      group.progress(std::uint32_t(rng() % 2));
    for (std::uint32_t r = 0; r < 2; ++r) {
      in_part += !all_are(r, float(r + 1)) && !all_are(r, 3);
      group.machine_of(r).end_step(r);
    }
    for (std::uint32_t r = 0; r < 2; ++r)
      bring(2, r, float(10 * (r + 1)));
    for (int i = 0; i < 300 && !group.is_drained(); ++i)
      group.progress_all();
    ASSERT_TRUE(group.is_drained());
    for (std::uint32_t r = 0; r < 2; ++r)
      ASSERT_TRUE(all_are(r, 30)) << "replica " << r;
  }
  EXPECT_GT(in_part, 0u);
}

TEST(CollectiveFaults, GiveNoResultToAReplicaOfAnOlderGeneration) {
  process_group group{{0, 2, 3}};
  group.begin_generation(1);
  group.begin_step(0);
  for (std::uint32_t r = 0; r < 3; ++r)
    group.machine_of(r).contribute(r, 4, ones(10));
  group.progress_all();
  ASSERT_TRUE(group.machine_of(0).sum_of(0, 4));
  group.machine_of(1).begin_generation(1, 2);
  EXPECT_FALSE(group.machine_of(0).is_current(0));
  EXPECT_FALSE(group.machine_of(0).sum_of(0, 4));
  EXPECT_FALSE(group.machine_of(0).is_complete(0));
  EXPECT_EQ(group.machine_of(0).first_incomplete(0), std::nullopt);
}

TEST(CollectiveFaults, HoldNoTensorAfterAnAbort) {
  process_group group{{0, 2, 3}};
  group.begin_generation(1);
  group.begin_step(0);
  const auto input = ones(1'000'000);
  group.machine_of(0).contribute(0, 0, input);
  group.machine_of(1).contribute(1, 0, ones(1'000'000));
  group.progress(0);
  group.machine_of(0).end_step(0);
  EXPECT_TRUE(input.unique());
  EXPECT_FALSE(group.progress(0));
  EXPECT_FALSE(group.machine_of(1).is_current(1));
  EXPECT_FALSE(group.machine_of(1).sum_of(1, 0));
}

// -- missing inputs -----------------------------------------------------------

TEST(CollectiveFaults, ReportMissingReplicasPerBucket) {
  process_group group{{0, 2, 3, 5}};
  group.begin_generation(1);
  group.begin_step(7);
  EXPECT_FALSE(group.machine_of(0).missing(7));
  group.machine_of(0).contribute(0, 4, ones(10));
  auto lack = group.machine_of(0).missing(7);
  ASSERT_TRUE(lack);
  EXPECT_EQ(lack->bucket, 4u);
  EXPECT_EQ(lack->replicas, std::vector<std::uint32_t>{1});
  group.machine_of(1).contribute(1, 4, ones(10));
  group.machine_of(2).contribute(2, 4, ones(10));
  group.progress_all();
  lack = group.machine_of(0).missing(7);
  EXPECT_EQ(lack->processes, std::vector<std::uint32_t>{2});
  EXPECT_EQ(lack->replicas, (std::vector<std::uint32_t>{3, 4}));
  EXPECT_FALSE(group.machine_of(0).missing(8));
  for (const std::uint32_t r : {3, 4})
    group.machine_of(r).contribute(r, 4, ones(10));
  group.progress_all();
  EXPECT_FALSE(group.machine_of(0).missing(7));
  group.machine_of(2).gather(2, 5, ones(1));
  lack = group.machine_of(2).missing(7);
  EXPECT_TRUE(lack->gather);
  EXPECT_EQ(lack->replicas, (std::vector<std::uint32_t>{0, 1, 3, 4}));
}

TEST(CollectiveFaults, ReportAPeerThatAcceptsNoPackets) {
  process_group group{{0, 1, 2}, 1};
  group.queues.between(0, 1, lane_id::contributions)
    .push_back({}); // the queue stays full
  group.begin_generation(1);
  group.begin_step(7);
  for (std::uint32_t r = 0; r < 2; ++r)
    group.machine_of(r).contribute(r, 4, ones(10));
  group.machines[1]->progress(*group.transports[1]);
  group.machines[0]->progress(*group.transports[0]);
  EXPECT_TRUE(group.machine_of(0).is_complete(0));
  EXPECT_FALSE(group.machine_of(0).is_drained(0));
  const auto lack = group.machine_of(0).missing(7);
  ASSERT_TRUE(lack);
  EXPECT_EQ(lack->bucket, 4u);
  EXPECT_EQ(lack->replicas, std::vector<std::uint32_t>{1});
}
