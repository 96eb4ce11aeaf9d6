#include "troupe/tests/strategies/collective/rings.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::collective;
using namespace troupe::collective::testing;

namespace {

using ids = std::vector<std::uint32_t>;

/// Lets each replica contribute `n` ones to bucket 6 in step 3.
void contribute_ones(process_group& group, std::int64_t n) {
  group.begin_generation(1);
  group.begin_step(3);
  for (std::uint32_t r = 0; r < group.placed.replicas(); ++r)
    group.machine_of(r).contribute(r, 6, ones(n), ringed);
}

} // namespace

// -- differences --------------------------------------------------------------

TEST(RingFaults, NameTheAlgorithmsThatDiffer) {
  process_group group{{0, 1, 2}};
  group.begin_generation(1);
  group.begin_step(3);
  group.machine_of(0).contribute(0, 6, ones(8));
  group.machine_of(1).contribute(1, 6, ones(8), ringed);
  group.progress_all();
  EXPECT_EQ(group.machines[1]->error()->process, 0u);
  EXPECT_EQ(reason_of(*group.machines[1]),
            "it sent bucket 6 of 8 elements by tree where bucket 6 of 8 "
            "elements by ring was expected in step 3: the replicas do not pass "
            "the same options");
}

TEST(RingFaults, NameTheOptionsThatDiffer) {
  process_group group{{0, 1, 2}};
  group.begin_generation(1);
  group.begin_step(3);
  group.machine_of(0).contribute(
    0, 6, ones(8), {collective_options::algorithm_kind::ring, 100, 8});
  group.machine_of(1).contribute(
    1, 6, ones(4), {collective_options::algorithm_kind::ring, 0, 4});
  group.progress_all();
  EXPECT_EQ(
    reason_of(*group.machines[1]),
    "it sent bucket 6 of 8 elements by ring with timeout 100 ms and "
    "bytes_per_pack 8 where bucket 6 of 4 elements by ring with bytes_per_pack "
    "4 was expected in step 3: the replicas do not pass the same options");
}

TEST(RingFaults, NameTheOptionsThatDifferBetweenLocalReplicas) {
  process_group group{{0, 2, 3}};
  group.begin_generation(1);
  group.begin_step(4);
  group.machine_of(0).contribute(0, 3, ones(8), ringed);
  try {
    group.machine_of(1).contribute(
      1, 3, ones(8), {collective_options::algorithm_kind::ring, 50});
    ADD_FAILURE() << "no error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(
      e.what(),
      "replica 1 contributed bucket 3 of float32[8] by ring with timeout 50 ms "
      "as operation 0 of step 4, replica 0 bucket 3 of float32[8] by ring as "
      "operation 0 of step 4: the replicas do not call the same collectives");
  }
}

TEST(RingFaults, NameALostContributionAndALostResult) {
  for (const auto q : {lane_id::contributions, lane_id::results}) {
    process_group group{{0, 1, 2, 3}, 4};
    contribute_ones(group, 1 << 20);
    for (int i = 0; i < 99 && group.queues.between(1, 2, q).empty(); ++i)
      for (const std::uint32_t p : {2, 0, 1})
        group.progress(p);
    ASSERT_FALSE(group.queues.between(1, 2, q).empty());
    group.queues.between(1, 2, q).pop_front();
    group.progress_all();
    EXPECT_EQ(group.machines[2]->error()->process, 1u);
    EXPECT_NE(reason_of(*group.machines[2]).find(": a packet was lost"),
              std::string::npos)
      << reason_of(*group.machines[2]);
  }
}

TEST(RingFaults, NameTheReplicasOfAContributionThatWrapsAround) {
  process_group group{{0, 1, 2, 3}, 4};
  contribute_ones(group, 1 << 20);
  for (const std::uint32_t p : {2, 0, 0})
    group.progress(p);
  ASSERT_EQ(group.queues.between(0, 1, lane_id::contributions).size(), 2u);
  group.queues.between(0, 1, lane_id::contributions).pop_front(); // chunk 0
  group.progress(1);
  EXPECT_EQ(
    reason_of(*group.machines[1]),
    "it sent a contribution to chunk 2 of bucket 6 of 1048576 elements "
    "of replicas [2, 1) where a contribution to chunk 0 of bucket 6 of 1048576 "
    "elements of replicas [0, 1) was expected in step 3: a packet was lost");
}

TEST(RingFaults, RejectAContributionThatIsTooShort) {
  process_group group{{0, 1, 2}};
  contribute_ones(group, 10);
  group.progress(0);
  group.queues.between(0, 1, lane_id::contributions)
    .front()
    .private_copy()
    .resize(39);
  group.progress_all();
  EXPECT_EQ(reason_of(*group.machines[1]),
            "it sent 39 bytes where 40 were expected");
}

/// A result that arrives too early is rejected, because it would overwrite a
/// contribution that was not forwarded yet.
TEST(RingFaults, RejectAResultBeforeItsContributionWasForwarded) {
  process_group group{{0, 1, 2, 3}};
  contribute_ones(group, 10);
  auto& queue_to_next = group.queues.between(0, 1, lane_id::results);
  packet_header made{.generation = 1,
                     .step = 3,
                     .elements = 10,
                     .sequence = 0,
                     .bucket = 6,
                     .chunk = 0,
                     .sender = 0,
                     .begin = 0,
                     .end = 3};
  made.kind = packet_kind::result;
  made.algorithm = collective_options::algorithm_kind::ring;
  queue_to_next.push_back({write(made), std::vector<std::byte>(40)});
  group.progress(1);
  EXPECT_EQ(group.machines[1]->error()->process, 0u);
  EXPECT_EQ(reason_of(*group.machines[1]),
            "it sent the result of chunk 0 of bucket 6 of 10 elements of "
            "replicas [0, 3) before this process had added its contribution");
}

// -- stale packets ------------------------------------------------------------

TEST(RingFaults, IgnoreARepeatedPacket) {
  for (const bool views : {true, false}) {
    process_group group{{0, 1, 2, 4}, 4, views};
    contribute_ones(group, 100'000);
    for (int i = 0; i < 600; ++i) {
      for (std::uint32_t p = 0; p < 3; ++p)
        group.progress(p);
      for (auto& q : group.queues.queues)
        if (!q.empty() && q.size() < 4 && group.queues.random() % 2)
          q.push_back(q.back());
    }
    ASSERT_EQ(reason_of(*group.machines[0]), "nothing is wrong");
    ASSERT_TRUE(group.is_drained());
    for (std::uint32_t r = 0; r < 4; ++r)
      for (const auto v : group.machine_of(r).sum_of(r, 6).data<float>())
        ASSERT_EQ(v, 4);
  }
}

TEST(RingFaults, ContinueInANewGenerationFromAnyState) {
  for (std::uint64_t seed = 0; seed < test::seeds_of(60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng{seed};
    process_group group{{0, 2, 3, 4}, 1 + rng() % 3, rng() % 2 == 0, seed};
    contribute_ones(group, 100'000);
    for (auto turns = rng() % 200; turns > 0; --turns)
      group.progress(std::uint32_t(rng() % 3));
    for (std::uint32_t r = 0; r < 4; ++r)
      group.machine_of(r).end_step(r);
    for (const std::uint32_t r : {3, 0, 2, 1}) { // one replica after the other
      group.machine_of(r).begin_generation(r, 2);
      group.machine_of(r).begin_step(r, 0);
      group.machine_of(r).contribute(r, 1, tensor::full({90'000}, r), ringed);
      for (auto turns = rng() % 20; turns > 0; --turns)
        group.progress(std::uint32_t(rng() % 3));
    }
    for (int i = 0; i < 2000 && !group.is_drained(); ++i)
      group.progress_all();
    for (const auto& x : group.machines)
      ASSERT_EQ(reason_of(*x), "nothing is wrong");
    ASSERT_TRUE(group.is_drained());
    for (std::uint32_t r = 0; r < 4; ++r)
      for (const auto v : group.machine_of(r).sum_of(r, 1).data<float>())
        ASSERT_EQ(v, 6);
  }
}

// -- missing inputs -----------------------------------------------------------

TEST(RingFaults, NameTheProcessThatDidNotStartAtAnyDistance) {
  for (std::uint32_t missing = 0; missing < 4; ++missing) {
    process_group group{{0, 1, 2, 3, 4}};
    group.begin_generation(1);
    group.begin_step(7);
    for (std::uint32_t r = 0; r < 4; ++r)
      if (r != missing)
        group.machine_of(r).contribute(r, 2, ones(1 << 20), ringed);
    group.progress_all();
    for (std::uint32_t r = 0; r < 4; ++r) {
      if (r == missing)
        continue;
      const auto lack = group.machine_of(r).missing(7);
      ASSERT_TRUE(lack);
      EXPECT_EQ(lack->bucket, 2u);
      EXPECT_EQ(lack->replicas, ids{missing}) << "as " << r << " sees it";
    }
  }
}

/// If the bucket is one chunk, a process cannot tell which process is missing.
/// `missing` then lists the replicas of every process that may be missing.
TEST(RingFaults, NameAllCandidatesIfThereIsOneChunk) {
  process_group group{{0, 1, 2, 3, 4}};
  group.begin_generation(1);
  group.begin_step(7);
  for (const std::uint32_t r : {0, 1, 3})
    group.machine_of(r).contribute(r, 2, ones(4), ringed);
  group.progress_all();
  EXPECT_EQ(group.machine_of(0).missing(7)->replicas, (ids{1, 2, 3}));
  EXPECT_EQ(group.machine_of(1).missing(7)->replicas, (ids{2, 3}));
  EXPECT_EQ(group.machine_of(3).missing(7)->replicas, (ids{0, 1, 2}));
  group.machine_of(2).contribute(2, 2, ones(4), ringed);
  group.progress_all();
  EXPECT_FALSE(group.machine_of(0).missing(7));
}

TEST(RingFaults, ReportAPeerThatAcceptsNoPackets) {
  process_group group{{0, 1, 2, 3}, 1};
  contribute_ones(group, 10); // the result goes from process 2 to 0, then to 1
  for (const std::uint32_t p : {0, 1})
    group.progress(p);
  group.queues.between(0, 1, lane_id::results)
    .push_back({}); // the queue stays full
  for (const std::uint32_t p : {2, 0, 0})
    group.progress(p);
  ASSERT_TRUE(group.machine_of(0).is_complete(0));
  EXPECT_FALSE(group.machine_of(0).is_drained(0));
  EXPECT_EQ(group.machine_of(0).missing(3)->replicas, ids{1});
}

TEST(RingFaults, NameAPeerThatSendsAnUnalignedAddress) {
  for (const auto way : {collective_options::algorithm_kind::tree,
                         collective_options::algorithm_kind::ring}) {
    process_group group{{0, 1, 2}};
    group.begin_generation(1);
    group.begin_step(0);
    for (std::uint32_t r = 0; r < 2; ++r)
      group.machine_of(r).contribute(r, 0, ones(50'000), {.algorithm = way});
    group.progress(1);
    auto& it = group.queues.between(1, 0, lane_id::contributions).front();
    const auto honest = it.private_copy();
    std::vector<std::byte> elsewhere(honest.size() + 1);
    std::ranges::copy(honest, elsewhere.begin() + 1);
    it.zero_copy = std::span{elsewhere}.subspan(1);
    group.progress(0);
    EXPECT_EQ(reason_of(*group.machines[0]),
              "it sent float32 at an address that is not aligned");
  }
}
