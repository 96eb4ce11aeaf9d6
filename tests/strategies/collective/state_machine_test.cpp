#include "troupe/tests/strategies/collective/packet_queues.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::exchange;
using namespace troupe::exchange::testing;

namespace {

const std::vector<firsts> layouts{
  {0, 1},          {0, 3},       {0, 1, 2},       {0, 2, 4},
  {0, 3, 4},       {0, 1, 4},    {0, 1, 2, 3},    {0, 3, 5, 6},
  {0, 1, 2, 3, 4}, {0, 5, 6, 8}, {0, 1, 4, 5, 9}, {0, 1, 2, 3, 4, 5}};

/// A replica and its position in a script that is equal for all replicas.
struct player {
  std::uint32_t id;
  std::size_t op = 0;
  std::uint64_t step = 0;
  std::vector<tensor> brought{12};
};

struct exchange_op {
  enum class kind { bring, want, collect, finish } what;
  std::uint32_t bucket = 0;
};

} // namespace

// -- bits ---------------------------------------------------------------------

TEST(Collective, GivesTheBitsOfTheTreeInEveryPlacement) {
  for (const auto& first : layouts)
    for (const bool views : {true, false})
      for (const std::size_t size : {1, 7, 5000, 20'000, 300'001}) {
        SCOPED_TRACE(text_of(first) + (views ? ", views, " : ", fetched, ")
                     + std::to_string(size));
        house on{first, 2, views, size};
        const auto parts = parts_of<float>(on.who.replicas(), size, size);
        on.seat(1);
        on.enter(5);
        for (std::uint32_t r = 0; r < on.who.replicas(); ++r)
          on.of(r).contribute(r, 3, parts[r]);
        on.pump_all();
        while (
          !views
          && !on.settled()) // a read that is incomplete counts as no progress
          on.pump_all();
        ASSERT_TRUE(on.settled());
        const auto wanted = oracle(parts);
        for (std::uint32_t r = 0; r < on.who.replicas(); ++r)
          ASSERT_TRUE(same_bits(on.of(r).sum_of(r, 3), wanted)) << r;
      }
}

TEST(Collective, OverwritesTheOnlyContributionIfAllowed) {
  for (const auto& first : layouts)
    for (const bool views : {true, false})
      for (const std::size_t size : {7, 5000, 300'001}) {
        SCOPED_TRACE(text_of(first) + (views ? ", views, " : ", fetched, ")
                     + std::to_string(size));
        house on{first, 2, views, size};
        const auto all = on.who.replicas();
        const auto parts = parts_of<float>(all, size, size);
        const auto wanted = oracle(parts);
        const bool direct =
          cut_of(size, dtype::float32, on.who.processes()).direct;
        on.seat(1);
        on.enter(5);
        for (std::uint32_t r = 0; r < all; ++r)
          on.of(r).contribute(r, 3, parts[r], {}, room::of_part);
        for (int i = 0; i < 2000 && !on.settled(); ++i)
          on.pump_all();
        ASSERT_TRUE(on.settled());
        for (std::uint32_t r = 0; r < all; ++r) {
          const auto sum = on.of(r).sum_of(r, 3);
          ASSERT_TRUE(same_bits(sum, wanted)) << r;
          const bool only = on.who.count(on.who.process_of(r)) == 1;
          EXPECT_EQ(sum.raw() == parts[r].raw(), only && !direct) << r;
        }
      }
}

TEST(Collective, AddsDoublesInTheSameTree) {
  for (const auto& first : layouts) {
    SCOPED_TRACE(text_of(first));
    house on{first};
    const auto parts = parts_of<double>(on.who.replicas(), 30'000, 4);
    on.seat(1);
    on.enter(0);
    for (std::uint32_t r = 0; r < on.who.replicas(); ++r)
      on.of(r).contribute(r, 0, parts[r]);
    on.pump_all();
    for (std::uint32_t r = 0; r < on.who.replicas(); ++r)
      ASSERT_TRUE(same_bits(on.of(r).sum_of(r, 0), oracle(parts)));
  }
}

TEST(Collective, SharesOneTensorAmongLocalReplicas) {
  house on{{0, 2, 3}};
  on.seat(1);
  on.enter(0);
  for (std::uint32_t r = 0; r < 3; ++r)
    on.of(r).contribute(r, 0, tensor::full({40'000}, r));
  on.pump_all();
  EXPECT_TRUE(on.of(0).sum_of(0, 0).shares_storage_with(on.of(1).sum_of(1, 0)));
}

// -- chunks -------------------------------------------------------------------

TEST(Collective, CutsOnlyByElementsTypeAndProcesses) {
  using c = cut;
  constexpr auto f = dtype::float32;
  EXPECT_EQ(cut_of(0, f, 2), (c{0, 0, false}));
  EXPECT_EQ(cut_of(1, f, 2), (c{1, 1, true}));
  EXPECT_EQ(cut_of(8192, f, 2), (c{8192, 1, true}));
  EXPECT_EQ(cut_of(8192, f, 4), (c{8192, 1, false}));
  EXPECT_EQ(cut_of(1 << 18, f, 2), (c{1 << 15, 8, false}));   // 1 MiB
  EXPECT_EQ(cut_of(1 << 24, f, 2), (c{1 << 16, 256, false})); // 64 MiB
  EXPECT_EQ(cut_of(1 << 24, f, 1), (c{1 << 16, 256, false}));
  for (std::uint32_t p = 1; p < 70; ++p)
    for (std::size_t n = 1; n < 10'000'000; n = n * 3 / 2 + 1)
      for (const auto type : {f, dtype::float64}) {
        const auto x = cut_of(n, type, p);
        ASSERT_LE(x.each * size_of(type), most_bytes);
        ASSERT_GE(x.each * x.count, n);
        ASSERT_LT(x.each * (x.count - 1), n);
        ASSERT_TRUE(x.count == 1 || x.each * size_of(type) % 64 == 0);
      }
}

TEST(Collective, SendsOneContributionPerMaximalSubtree) {
  const layout x{{0, 3, 4, 9}, 0};
  EXPECT_EQ(subtrees_of(x, 0), (std::vector<range>{{0, 2}, {2, 3}}));
  EXPECT_EQ(subtrees_of(x, 1), (std::vector<range>{{3, 4}}));
  EXPECT_EQ(subtrees_of(x, 2), (std::vector<range>{{4, 8}, {8, 9}}));
  EXPECT_EQ(subtrees_of({{0, 4}, 0}, 0), (std::vector<range>{{0, 4}}));
}

TEST(Collective, MovesTwiceTheBucketLessItsOwnShare) {
  for (const std::uint32_t p : {2, 3, 4, 5}) {
    firsts first;
    for (std::uint32_t i = 0; i <= p; ++i)
      first.push_back(2 * i); // whole subtrees
    house on{first};
    const std::size_t size = std::size_t{1} << 20;
    on.seat(1);
    on.enter(0);
    for (std::uint32_t r = 0; r < 2 * p; ++r)
      on.of(r).contribute(r, 0, tensor::full({std::int64_t(size)}, 1));
    on.pump_all();
    ASSERT_TRUE(on.settled());
    std::size_t sum = 0;
    for (const auto bytes : on.office.sent) {
      EXPECT_NEAR(double(bytes), 2.0 * (p - 1) / p * double(4 * size),
                  2.0 * most_bytes * p);
      sum += bytes;
    }
    EXPECT_EQ(sum, 2 * (p - 1) * 4 * size);
  }
}

TEST(Collective, SendsSmallBucketsInOneHop) {
  house on{{0, 1, 2, 3}};
  on.seat(1);
  on.enter(0);
  for (std::uint32_t r = 0; r < 3; ++r)
    on.of(r).contribute(r, 0, tensor::full({100}, 1));
  for (std::uint32_t r = 0; r < 3; ++r)
    while (on.pump(r)) {
    }
  while (on.pump(0)) {
  }
  EXPECT_TRUE(on.of(0).sum_of(0, 0)); // no further packets were needed
  EXPECT_EQ(on.office.sent[0], 2u * 400);
}

// -- queues -------------------------------------------------------------------

TEST(Collective, NeverDeadlocksInAnyRandomSchedule) {
  using kind = exchange_op::kind;
  for (std::uint64_t seed = 0; seed < test::seeds_of(60); ++seed) {
    std::mt19937_64 rng{seed};
    const auto& first = layouts[rng() % layouts.size()];
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + text_of(first));
    house on{first, 1 + rng() % 3, rng() % 2 == 0, seed};
    std::vector<exchange_op> script;
    std::vector<std::size_t> sizes;
    for (std::uint32_t b = 0; b < 12; ++b) {
      constexpr std::array<std::size_t, 5> some{0, 1, 300, 9000, 30'000};
      sizes.push_back(some[rng() % 5]);
      const bool gathers = rng() % 4 == 0;
      script.push_back({gathers ? kind::collect : kind::bring, b});
      if (rng() % 3 == 0)
        script.push_back({kind::want, b});
    }
    script.push_back({kind::finish});
    on.seat(1);
    on.enter(0);
    std::vector<player> players;
    for (std::uint32_t r = 0; r < on.who.replicas(); ++r)
      players.push_back({r});
    std::vector<bool> gathers(12);
    for (const auto& op : script)
      if (op.what == kind::collect)
        gathers[op.bucket] = true;
    std::size_t over = 0;
    for (int turns = 0; over < players.size(); ++turns) {
      ASSERT_LT(turns, 200'000) << "deadlock";
      const auto p = std::uint32_t(rng() % on.who.processes());
      on.pump(p);
      auto& it = players[rng() % players.size()];
      auto& own = on.of(it.id);
      ASSERT_FALSE(own.wrong()) << own.wrong()->why;
      if (it.step == 3)
        continue;
      const auto& op = script[it.op];
      const auto at = it.step * 100 + op.bucket;
      if (op.what == kind::bring) {
        it.brought[op.bucket] =
          brought<float>(sizes[op.bucket], at * 1000 + it.id);
        own.contribute(it.id, op.bucket, it.brought[op.bucket], {},
                       room(op.bucket % 2));
      } else if (op.what == kind::collect) {
        own.gather(it.id, op.bucket,
                   brought<float>(sizes[op.bucket] + it.id, at * 1000 + it.id));
      } else if (op.what == kind::want && gathers[op.bucket]) {
        const auto all = own.gathered(it.id, op.bucket);
        if (all.empty())
          continue;
        for (std::uint32_t r = 0; r < on.who.replicas(); ++r)
          ASSERT_TRUE(same_bits(
            all[r], brought<float>(sizes[op.bucket] + r, at * 1000 + r)));
      } else if (op.what == kind::want) {
        const auto sum = own.sum_of(it.id, op.bucket);
        if (!sum)
          continue;
        ASSERT_TRUE(same_bits(
          sum,
          oracle(parts_of<float>(on.who.replicas(), sizes[op.bucket], at))));
        auto& mine = it.brought[op.bucket]; // no peer reads it any more
        if (mine.raw() != sum.raw())
          std::ranges::fill(mine.mutable_data<float>(), 1e30F);
      } else {
        if (!on.settled(it.id))
          continue;
        own.leave(it.id);
        if (++it.step == 3)
          ++over;
        else
          own.enter(it.id, it.step);
        it.op = 0;
        continue;
      }
      ++it.op;
    }
    EXPECT_LE(on.office.most, on.office.capacity);
  }
}

TEST(Collective, MakesAThousandSmallSumsInAStep) {
  house on{{0, 1, 2}, 8};
  on.seat(1);
  for (std::uint64_t step = 0; step < 2; ++step) {
    on.enter(step);
    for (std::uint32_t b = 0; b < 1000; ++b)
      for (std::uint32_t r = 0; r < 2; ++r) {
        on.of(r).contribute(r, b, tensor::full({1 + b % 50}, r + b));
        on.pump(r);
      }
    on.pump_all();
    ASSERT_TRUE(on.settled());
    for (std::uint32_t b = 0; b < 1000; ++b)
      ASSERT_EQ(on.of(1).sum_of(1, b).data<float>().back(), 2 * b + 1);
    on.leave();
  }
}

TEST(Collective, EmptyBucketNeedsNoPacket) {
  house on{{0, 1, 2}};
  on.seat(1);
  on.enter(0);
  for (std::uint32_t r = 0; r < 2; ++r)
    on.of(r).contribute(r, 0, tensor::zeros({0}));
  EXPECT_EQ(on.of(0).sum_of(0, 0).size(), 0u);
  on.pump_all();
  EXPECT_TRUE(on.settled());
  EXPECT_EQ(on.office.sent[0], 0u);
}
