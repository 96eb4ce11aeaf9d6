#include "troupe/tests/strategies/collective/rings.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::exchange;
using namespace troupe::exchange::testing;

namespace {

using ids = std::vector<std::uint32_t>;

std::string why(const machine& x) {
  return x.wrong() ? x.wrong()->why : "nothing is wrong";
}

tensor ones(std::int64_t n) {
  return tensor::full({n}, 1);
}

/// All replicas contribute `n` ones.
void bring(house& on, std::int64_t n) {
  on.seat(1);
  on.enter(3);
  for (std::uint32_t r = 0; r < on.who.replicas(); ++r)
    on.of(r).contribute(r, 6, ones(n), ringed);
}

} // namespace

// -- differences --------------------------------------------------------------

TEST(RingFaults, NameTheAlgorithmsThatDiffer) {
  house on{{0, 1, 2}};
  on.seat(1);
  on.enter(3);
  on.of(0).contribute(0, 6, ones(8));
  on.of(1).contribute(1, 6, ones(8), ringed);
  on.pump_all();
  EXPECT_EQ(on.machines[1]->wrong()->process, 0u);
  EXPECT_EQ(why(*on.machines[1]),
            "process 0 sent bucket 6 of 8 elements by tree where bucket 6 of 8 "
            "elements by ring was expected in step 3: the replicas do not pass "
            "the same options");
}

TEST(RingFaults, NameTheOptionsThatDiffer) {
  house on{{0, 1, 2}};
  on.seat(1);
  on.enter(3);
  on.of(0).contribute(0, 6, ones(8), {terms::ways::ring, 100, 8});
  on.of(1).contribute(1, 6, ones(4), {terms::ways::ring, 0, 4});
  on.pump_all();
  EXPECT_EQ(
    why(*on.machines[1]),
    "process 0 sent bucket 6 of 8 elements by ring with timeout 100 ms and "
    "bytes_per_pack 8 where bucket 6 of 4 elements by ring with bytes_per_pack "
    "4 was expected in step 3: the replicas do not pass the same options");
}

TEST(RingFaults, NameTheOptionsThatDifferBetweenLocalReplicas) {
  house on{{0, 2, 3}};
  on.seat(1);
  on.enter(4);
  on.of(0).contribute(0, 3, ones(8), ringed);
  try {
    on.of(1).contribute(1, 3, ones(8), {terms::ways::ring, 50});
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
  for (const auto q : {queue::parts, queue::sums}) {
    house on{{0, 1, 2, 3}, 4};
    bring(on, 1 << 20);
    for (int i = 0; i < 99 && on.office.of(1, 2, q).empty(); ++i)
      for (const std::uint32_t p : {2, 0, 1})
        on.pump(p);
    ASSERT_FALSE(on.office.of(1, 2, q).empty());
    on.office.of(1, 2, q).pop_front();
    on.pump_all();
    EXPECT_EQ(on.machines[2]->wrong()->process, 1u);
    EXPECT_NE(why(*on.machines[2]).find(": a packet was lost"),
              std::string::npos)
      << why(*on.machines[2]);
  }
}

TEST(RingFaults, NameTheReplicasOfAContributionThatWrapsAround) {
  house on{{0, 1, 2, 3}, 4};
  bring(on, 1 << 20);
  for (const std::uint32_t p : {2, 0, 0})
    on.pump(p);
  ASSERT_EQ(on.office.of(0, 1, queue::parts).size(), 2u);
  on.office.of(0, 1, queue::parts).pop_front(); // chunk 0
  on.pump(1);
  EXPECT_EQ(
    why(*on.machines[1]),
    "process 0 sent a contribution to chunk 2 of bucket 6 of 1048576 elements "
    "of replicas [2, 1) where a contribution to chunk 0 of bucket 6 of 1048576 "
    "elements of replicas [0, 1) was expected in step 3: a packet was lost");
}

TEST(RingFaults, RejectAContributionThatIsTooShort) {
  house on{{0, 1, 2}};
  bring(on, 10);
  on.pump(0);
  on.office.of(0, 1, queue::parts).front().own().resize(39);
  on.pump_all();
  EXPECT_EQ(why(*on.machines[1]),
            "process 0 sent 39 bytes where 40 were expected");
}

/// Such a result would overwrite a contribution that is still to be forwarded.
TEST(RingFaults, RejectAResultBeforeItsContributionWasForwarded) {
  house on{{0, 1, 2, 3}};
  bring(on, 10);
  auto& to = on.office.of(0, 1, queue::sums);
  parcel made{.epoch = 1,
              .step = 3,
              .elements = 10,
              .exchange = 0,
              .bucket = 6,
              .chunk = 0,
              .from = 0,
              .begin = 0,
              .end = 3};
  made.what = subject::sum;
  made.way = terms::ways::ring;
  to.push_back({write(made), std::vector<std::byte>(40)});
  on.pump(1);
  EXPECT_EQ(on.machines[1]->wrong()->process, 0u);
  EXPECT_EQ(
    why(*on.machines[1]),
    "process 0 sent the result of chunk 0 of bucket 6 of 10 elements of "
    "replicas [0, 3) before this process had added its contribution");
}

// -- stale packets ------------------------------------------------------------

TEST(RingFaults, IgnoreARepeatedPacket) {
  for (const bool views : {true, false}) {
    house on{{0, 1, 2, 4}, 4, views};
    bring(on, 100'000);
    for (int i = 0; i < 600; ++i) {
      for (std::uint32_t p = 0; p < 3; ++p)
        on.pump(p);
      for (auto& q : on.office.queues)
        if (!q.empty() && q.size() < 4 && on.office.chance() % 2)
          q.push_back(q.back());
    }
    ASSERT_EQ(why(*on.machines[0]), "nothing is wrong");
    ASSERT_TRUE(on.settled());
    for (std::uint32_t r = 0; r < 4; ++r)
      for (const auto v : on.of(r).sum_of(r, 6).data<float>())
        ASSERT_EQ(v, 4);
  }
}

TEST(RingFaults, ContinueInANewGenerationFromAnyState) {
  for (std::uint64_t seed = 0; seed < test::seeds_of(60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng{seed};
    house on{{0, 2, 3, 4}, 1 + rng() % 3, rng() % 2 == 0, seed};
    bring(on, 100'000);
    for (auto turns = rng() % 200; turns > 0; --turns)
      on.pump(std::uint32_t(rng() % 3));
    for (std::uint32_t r = 0; r < 4; ++r)
      on.of(r).leave(r);
    for (const std::uint32_t r : {3, 0, 2, 1}) { // one after the other
      on.of(r).seat(r, 2);
      on.of(r).enter(r, 0);
      on.of(r).contribute(r, 1, tensor::full({90'000}, r), ringed);
      for (auto turns = rng() % 20; turns > 0; --turns)
        on.pump(std::uint32_t(rng() % 3));
    }
    for (int i = 0; i < 2000 && !on.settled(); ++i)
      on.pump_all();
    for (const auto& x : on.machines)
      ASSERT_EQ(why(*x), "nothing is wrong");
    ASSERT_TRUE(on.settled());
    for (std::uint32_t r = 0; r < 4; ++r)
      for (const auto v : on.of(r).sum_of(r, 1).data<float>())
        ASSERT_EQ(v, 6);
  }
}

// -- missing inputs -----------------------------------------------------------

TEST(RingFaults, NameTheProcessThatDidNotStartAtAnyDistance) {
  for (std::uint32_t missing = 0; missing < 4; ++missing) {
    house on{{0, 1, 2, 3, 4}};
    on.seat(1);
    on.enter(7);
    for (std::uint32_t r = 0; r < 4; ++r)
      if (r != missing)
        on.of(r).contribute(r, 2, ones(1 << 20), ringed);
    on.pump_all();
    for (std::uint32_t r = 0; r < 4; ++r) {
      if (r == missing)
        continue;
      const auto lack = on.of(r).lacking(7);
      ASSERT_TRUE(lack);
      EXPECT_EQ(lack->bucket, 2u);
      EXPECT_EQ(lack->replicas, ids{missing}) << "as " << r << " sees it";
    }
  }
}

/// A single chunk does not tell which of the preceding processes is missing.
TEST(RingFaults, NameAllCandidatesIfThereIsOneChunk) {
  house on{{0, 1, 2, 3, 4}};
  on.seat(1);
  on.enter(7);
  for (const std::uint32_t r : {0, 1, 3})
    on.of(r).contribute(r, 2, ones(4), ringed);
  on.pump_all();
  EXPECT_EQ(on.of(0).lacking(7)->replicas, (ids{1, 2, 3}));
  EXPECT_EQ(on.of(1).lacking(7)->replicas, (ids{2, 3}));
  EXPECT_EQ(on.of(3).lacking(7)->replicas, (ids{0, 1, 2}));
  on.of(2).contribute(2, 2, ones(4), ringed);
  on.pump_all();
  EXPECT_FALSE(on.of(0).lacking(7));
}

TEST(RingFaults, ReportAPeerThatAcceptsNoPackets) {
  house on{{0, 1, 2, 3}, 1};
  bring(on, 10); // the result travels from 2 to 0 to 1
  for (const std::uint32_t p : {0, 1})
    on.pump(p);
  on.office.of(0, 1, queue::sums).push_back({}); // the queue stays full
  for (const std::uint32_t p : {2, 0, 0})
    on.pump(p);
  ASSERT_TRUE(on.of(0).complete(0));
  EXPECT_FALSE(on.of(0).settled(0));
  EXPECT_EQ(on.of(0).lacking(3)->replicas, ids{1});
}

TEST(RingFaults, NameAPeerThatSendsAnUnalignedAddress) {
  for (const auto way : {terms::ways::tree, terms::ways::ring}) {
    house on{{0, 1, 2}};
    on.seat(1);
    on.enter(0);
    for (std::uint32_t r = 0; r < 2; ++r)
      on.of(r).contribute(r, 0, ones(50'000), {.way = way});
    on.pump(1);
    auto& it = on.office.of(1, 0, queue::parts).front();
    const auto honest = it.own();
    std::vector<std::byte> elsewhere(honest.size() + 1);
    std::ranges::copy(honest, elsewhere.begin() + 1);
    it.lent = std::span{elsewhere}.subspan(1);
    on.pump(0);
    EXPECT_EQ(why(*on.machines[0]),
              "process 1 sent float32 at an address that is not aligned");
  }
}
