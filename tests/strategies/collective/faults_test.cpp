#include "troupe/tests/strategies/collective/packet_queues.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

using namespace troupe;
using namespace troupe::exchange;
using namespace troupe::exchange::testing;

namespace {

std::string why(const machine& x) {
  return x.wrong() ? x.wrong()->why : "nothing is wrong";
}

template <class F>
std::string refusal(F&& fn) {
  try {
    fn();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "";
}

tensor ones(std::int64_t n) {
  return tensor::full({n}, 1);
}

/// Two processes of one replica each that sum a bucket. Process 1 has sent as
/// many packets as its queue holds.
struct begun_sum : house {
  explicit begun_sum(std::int64_t elements) : house{{0, 1, 2}} {
    seat(1);
    enter(0);
    for (std::uint32_t r = 0; r < 2; ++r)
      of(r).contribute(r, 0, ones(elements));
    pump(1);
  }
};

} // namespace

// -- differences --------------------------------------------------------------

TEST(CollectiveFaults, NameBothCollectivesIfProcessesDiffer) {
  house on{{0, 1, 2, 3}};
  on.seat(1);
  on.enter(3);
  on.of(0).contribute(0, 6, ones(1024));
  on.of(2).contribute(2, 7, ones(4096));
  on.pump_all();
  EXPECT_EQ(on.machines[0]->wrong()->process, 2u);
  EXPECT_EQ(
    why(*on.machines[0]),
    "process 2 sent bucket 7 of 4096 elements where bucket 6 of 1024 elements "
    "was expected in step 3: the replicas do not call the same collectives");
}

TEST(CollectiveFaults, NameTheTypesAndGathersThatDiffer) {
  house on{{0, 1, 2, 3}};
  on.seat(1);
  on.enter(3);
  on.of(0).contribute(0, 6, ones(8));
  on.of(1).contribute(1, 6, tensor::zeros({8}, dtype::float64));
  on.of(2).gather(2, 6, ones(8));
  on.pump_all();
  EXPECT_EQ(
    why(*on.machines[0]),
    "process 1 sent bucket 6 of 8 elements of float64 where float32 was "
    "expected in step 3: the replicas do not call the same collectives");
  EXPECT_EQ(why(*on.machines[2]),
            "process 0 sent bucket 6 of 8 elements where gather 6 was expected "
            "in step 3: the replicas do not call the same collectives");
}

TEST(CollectiveFaults, NameAStepWithAMissingCollective) {
  house on{{0, 1, 2}};
  on.seat(1);
  on.enter(0);
  on.of(0).contribute(0, 0, ones(8));
  on.of(1).enter(1, 1);
  on.of(1).contribute(1, 0, ones(8));
  on.pump_all();
  EXPECT_EQ(why(*on.machines[0]),
            "process 1 sent bucket 0 of 8 elements of step 1 where bucket 0 of "
            "8 elements was expected in step 0: a packet was lost, or the "
            "replicas do not call the same collectives");
}

TEST(CollectiveFaults, NameALostPacket) {
  begun_sum on{1 << 20};
  on.office.of(1, 0, queue::parts).pop_front();
  on.pump_all();
  EXPECT_EQ(
    why(*on.machines[0]),
    "process 1 sent a contribution to chunk 2 of bucket 0 of 1048576 elements "
    "of replicas [1, 2) where a contribution to chunk 0 of bucket 0 of 1048576 "
    "elements of replicas [1, 2) was expected in step 0: a packet was lost");
}

TEST(CollectiveFaults, RejectAContributionThatIsTooShort) {
  begun_sum on{10};
  on.office.of(1, 0, queue::parts).front().own().resize(39);
  on.pump_all();
  EXPECT_EQ(why(*on.machines[0]),
            "process 1 sent 39 bytes where 40 were expected");
  EXPECT_FALSE(on.pump(0));
}

TEST(CollectiveFaults, RejectDifferentCallsOfLocalReplicas) {
  house on{{0, 2}};
  on.seat(1);
  on.enter(4);
  auto& it = on.of(0);
  it.contribute(0, 3, ones(8));
  EXPECT_EQ(refusal([&] { it.contribute(1, 3, ones(9)); }),
            "replica 1 contributed bucket 3 of float32[9] as operation 0 of "
            "step 4, replica 0 bucket 3 of float32[8] as operation 0 of step "
            "4: the replicas do not call the same collectives");
  EXPECT_NE(refusal([&] { it.contribute(1, 4, ones(8)); }), "");
  EXPECT_NE(refusal([&] { it.gather(1, 3, ones(8)); }), "");
  EXPECT_EQ(refusal([&] { it.contribute(0, 3, ones(8)); }),
            "bucket 3 was contributed to twice in a step");
  EXPECT_EQ(refusal([&] { it.sum_of(1, 5); }),
            "the sum of bucket 5 was asked for before a contribution to it");
  EXPECT_EQ(refusal([&] { it.contribute(1, 3, {}); }),
            "bucket 3 is not of float32 or float64");
  EXPECT_EQ(refusal([] {
              machine{{{0, 1, 1}, 0}};
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
  bad[1] = std::byte{6};
  EXPECT_FALSE(read(bad, out));
  for (const std::size_t byte : {13, 15, 22, 23}) { // extents of 2^40 and more
    bad = good;
    bad[byte] = std::byte{0xff};
    EXPECT_FALSE(read(bad, out)) << byte;
  }
  EXPECT_FALSE(
    read(write(tensor_spec{{1 << 14, 1 << 14, 2}, dtype::float32}), out));
  house on{{0, 1, 2}};
  on.seat(1);
  on.enter(0);
  for (std::uint32_t r = 0; r < 2; ++r)
    on.of(r).gather(r, 0, ones(2));
  on.pump(1);
  on.office.of(1, 0, queue::parts).front().own()[12] = std::byte{1};
  on.pump_all();
  EXPECT_EQ(why(*on.machines[0]), "process 1 sent a contribution to gather 0 "
                                  "whose tensor spec is invalid or too large");
}

// -- stale packets ------------------------------------------------------------

TEST(CollectiveFaults, IgnoreARepeatedPacket) {
  for (const bool views : {true, false}) {
    house on{{0, 1, 2}, 4, views};
    on.seat(1);
    on.enter(0);
    for (std::uint32_t r = 0; r < 2; ++r) {
      on.of(r).contribute(r, 0, ones(100'000));
      on.of(r).gather(r, 1, ones(5));
    }
    for (int i = 0; i < 400; ++i) {
      on.pump(0);
      on.pump(1);
      for (auto& q : on.office.queues)
        if (!q.empty() && q.size() < 4 && on.office.chance() % 2)
          q.push_back(q.back());
    }
    for (int i = 0; i < 2000 && !on.settled(); ++i) {
      on.pump(0);
      on.pump(1);
    }
    ASSERT_EQ(why(*on.machines[0]), "nothing is wrong");
    ASSERT_TRUE(on.settled());
    EXPECT_EQ(on.of(0).sum_of(0, 0).data<float>()[99'999], 2);
    EXPECT_EQ(on.of(1).gathered(1, 1)[0].size(), 5u);
  }
}

TEST(CollectiveFaults, DropPacketsOfOlderGenerationsAndKeepThoseOfNewer) {
  for (std::uint64_t seed = 0; seed < test::seeds_of(40); ++seed)
    for (const bool views : {true, false}) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937_64 rng{seed};
      house on{{0, 2, 3}, 1 + rng() % 3, views, seed};
      on.seat(1);
      on.enter(0);
      for (std::uint32_t r = 0; r < 3; ++r) {
        on.of(r).contribute(r, 0, ones(100'000));
        on.of(r).gather(r, 1, ones(70'000));
      }
      for (auto turns = rng() % 60; turns > 0; --turns)
        on.pump(std::uint32_t(rng() % 2));
      for (std::uint32_t r = 0; r < 3; ++r)
        on.of(r).leave(r); // in mid-step: the generation is aborted
      EXPECT_FALSE(on.pump(0) && !on.settled());
      on.of(2).seat(2, 2); // process 1 is ahead
      on.of(2).enter(2, 0);
      on.of(2).contribute(2, 0, tensor::full({100'000}, 5));
      while (on.pump(1)) {
      }
      on.of(0).seat(0, 2);
      on.of(0).enter(0, 0);
      on.of(0).contribute(0, 0, tensor::full({100'000}, 6));
      EXPECT_FALSE(on.of(1).current(1));
      on.of(1).contribute(1, 0, ones(3)); // of the old generation: ignored
      on.pump_all();
      EXPECT_FALSE(on.of(0).sum_of(0, 0));
      on.of(1).seat(1, 2);
      on.of(1).enter(1, 0);
      on.of(1).contribute(1, 0, tensor::full({100'000}, 7));
      for (int i = 0; i < 300 && !on.settled(); ++i)
        on.pump_all();
      ASSERT_EQ(why(*on.machines[0]), "nothing is wrong");
      ASSERT_EQ(why(*on.machines[1]), "nothing is wrong");
      ASSERT_TRUE(on.settled());
      for (std::uint32_t r = 0; r < 3; ++r)
        for (const auto v : on.of(r).sum_of(r, 0).data<float>())
          ASSERT_EQ(v, 18);
    }
}

TEST(CollectiveFaults, ReadNoDataOfAnAbortedStepIntoAReusedBuffer) {
  std::size_t in_part = 0; // runs in which a result was partly read
  for (std::uint64_t seed = 0; seed < test::seeds_of(40); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng{seed};
    house on{{0, 1, 2}, 1 + rng() % 3, false, seed};
    const std::vector<tensor> buffers{ones(300'000), ones(300'000)};
    const auto all_are = [&](std::uint32_t r, float value) {
      const auto x = buffers[r].data<float>();
      return std::ranges::all_of(x, [=](float v) { return v == value; });
    };
    const auto bring = [&](std::uint64_t epoch, std::uint32_t r, float value) {
      on.of(r).seat(r, epoch);
      on.of(r).enter(r, 7);
      std::ranges::fill(tensor{buffers[r]}.mutable_data<float>(), value);
      on.of(r).contribute(r, 0, buffers[r], {}, room::of_part);
    };
    for (std::uint32_t r = 0; r < 2; ++r)
      bring(1, r, float(r + 1));
    for (auto turns = rng() % 60; turns > 0; --turns)
      on.pump(std::uint32_t(rng() % 2));
    for (std::uint32_t r = 0; r < 2; ++r) {
      in_part += !all_are(r, float(r + 1)) && !all_are(r, 3);
      on.of(r).leave(r);
    }
    for (std::uint32_t r = 0; r < 2; ++r)
      bring(2, r, float(10 * (r + 1)));
    for (int i = 0; i < 300 && !on.settled(); ++i)
      on.pump_all();
    ASSERT_TRUE(on.settled());
    for (std::uint32_t r = 0; r < 2; ++r)
      ASSERT_TRUE(all_are(r, 30)) << "replica " << r;
  }
  EXPECT_GT(in_part, 0u);
}

TEST(CollectiveFaults, GiveNoResultToAReplicaOfAnOlderGeneration) {
  house on{{0, 2, 3}};
  on.seat(1);
  on.enter(0);
  for (std::uint32_t r = 0; r < 3; ++r)
    on.of(r).contribute(r, 4, ones(10));
  on.pump_all();
  ASSERT_TRUE(on.of(0).sum_of(0, 4));
  on.of(1).seat(1, 2);
  EXPECT_FALSE(on.of(0).current(0));
  EXPECT_FALSE(on.of(0).sum_of(0, 4));
  EXPECT_FALSE(on.of(0).complete(0));
  EXPECT_EQ(on.of(0).incomplete(0), 0u);
}

TEST(CollectiveFaults, HoldNoTensorAfterAnAbort) {
  house on{{0, 2, 3}};
  on.seat(1);
  on.enter(0);
  const auto part = ones(1'000'000);
  on.of(0).contribute(0, 0, part);
  on.of(1).contribute(1, 0, ones(1'000'000));
  on.pump(0);
  on.of(0).leave(0);
  EXPECT_TRUE(part.unique());
  EXPECT_FALSE(on.pump(0));
  EXPECT_FALSE(on.of(1).current(1));
  EXPECT_FALSE(on.of(1).sum_of(1, 0));
}

// -- missing inputs -----------------------------------------------------------

TEST(CollectiveFaults, ReportMissingReplicasPerBucket) {
  house on{{0, 2, 3, 5}};
  on.seat(1);
  on.enter(7);
  EXPECT_FALSE(on.of(0).lacking(7));
  on.of(0).contribute(0, 4, ones(10));
  auto lack = on.of(0).lacking(7);
  ASSERT_TRUE(lack);
  EXPECT_EQ(lack->bucket, 4u);
  EXPECT_EQ(lack->replicas, std::vector<std::uint32_t>{1});
  on.of(1).contribute(1, 4, ones(10));
  on.of(2).contribute(2, 4, ones(10));
  on.pump_all();
  lack = on.of(0).lacking(7);
  EXPECT_EQ(lack->processes, std::vector<std::uint32_t>{2});
  EXPECT_EQ(lack->replicas, (std::vector<std::uint32_t>{3, 4}));
  EXPECT_FALSE(on.of(0).lacking(8));
  for (const std::uint32_t r : {3, 4})
    on.of(r).contribute(r, 4, ones(10));
  on.pump_all();
  EXPECT_FALSE(on.of(0).lacking(7));
  on.of(2).gather(2, 5, ones(1));
  lack = on.of(2).lacking(7);
  EXPECT_TRUE(lack->gather);
  EXPECT_EQ(lack->replicas, (std::vector<std::uint32_t>{0, 1, 3, 4}));
}

TEST(CollectiveFaults, ReportAPeerThatAcceptsNoPackets) {
  house on{{0, 1, 2}, 1};
  on.office.of(0, 1, queue::parts).push_back({}); // the queue stays full
  on.seat(1);
  on.enter(7);
  for (std::uint32_t r = 0; r < 2; ++r)
    on.of(r).contribute(r, 4, ones(10));
  on.machines[1]->pump(*on.boxes[1]);
  on.machines[0]->pump(*on.boxes[0]);
  EXPECT_TRUE(on.of(0).complete(0));
  EXPECT_FALSE(on.of(0).settled(0));
  const auto lack = on.of(0).lacking(7);
  ASSERT_TRUE(lack);
  EXPECT_EQ(lack->bucket, 4u);
  EXPECT_EQ(lack->replicas, std::vector<std::uint32_t>{1});
}
