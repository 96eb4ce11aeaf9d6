#include "troupe/tests/strategies/collective/rings.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::exchange;
using namespace troupe::exchange::testing;

namespace {

/// Placements with P = 1 to 5, even and uneven.
const std::vector<firsts> layouts{
  {0, 1},          {0, 3},          {0, 1, 2},          {0, 3, 4},
  {0, 1, 6},       {0, 1, 2, 3},    {0, 3, 5, 6},       {0, 1, 2, 3, 4},
  {0, 1, 4, 5, 9}, {0, 2, 4, 6, 8}, {0, 1, 2, 3, 4, 5}, {0, 4, 5, 8, 10, 11}};

/// Numbers of elements: chunks of 16 KiB and more, and one element more and
/// less than full chunks.
const std::vector<std::size_t> sizes{1, 8192, 8193, 20'479, 20'480, 20'481};

template <class T>
void walk(const firsts& first, bool views, std::size_t size) {
  SCOPED_TRACE(text_of(first) + (views ? ", views, " : ", fetched, ")
               + std::to_string(size));
  house on{first, 1, views, size};
  const auto all = on.who.replicas();
  const auto parts = parts_of<T>(all, size, size);
  on.seat(1);
  on.enter(5);
  for (std::uint32_t b = 0; b < 2; ++b) // each starts at another process
    for (std::uint32_t r = 0; r < all; ++r)
      on.of(r).contribute(r, b, parts[r], ringed);
  for (int i = 0; i < 20'000 && !on.settled(); ++i)
    on.pump_all();
  ASSERT_TRUE(on.settled());
  for (std::uint32_t b = 0; b < 2; ++b) {
    const auto wanted = ring_of<T>(parts, first, b);
    for (std::uint32_t r = 0; r < all; ++r)
      ASSERT_TRUE(same_bits(on.of(r).sum_of(r, b), wanted)) << b << ", " << r;
  }
}

struct op {
  enum class kind { bring, gather, want, finish } what;
  std::uint32_t bucket = 0;
};

struct player {
  std::uint32_t id;
  std::size_t at = 0;
  std::uint64_t step = 0;
};

/// Replicas of a job that execute one script, each at its own pace.
struct play {
  static constexpr std::uint32_t buckets = 10;

  explicit play(std::uint64_t seed)
    : rng{seed},
      first{layouts[rng() % layouts.size()]},
      on{first, 1 + rng() % 2, rng() % 2 == 0, seed} {
    for (std::uint32_t b = 0; b < buckets; ++b) {
      constexpr std::array<std::size_t, 6> some{0, 1, 300, 8192, 9000, 30'000};
      sizes.push_back(some[rng() % 6]);
      said.push_back({rng() % 3 == 0 ? terms::ways::tree : terms::ways::ring});
      gathers.push_back(rng() % 5 == 0);
      script.push_back({gathers[b] ? op::kind::gather : op::kind::bring, b});
      if (rng() % 3 == 0)
        script.push_back({op::kind::want, b});
    }
    script.push_back({op::kind::finish});
    on.seat(1);
    on.enter(0);
    for (std::uint32_t r = 0; r < on.who.replicas(); ++r)
      players.push_back({r});
  }

  tensors brought_to(std::uint64_t step, std::uint32_t b) const {
    return parts_of<float>(on.who.replicas(), sizes[b], step * 100 + b);
  }

  tensor wanted(std::uint64_t step, std::uint32_t b) const {
    const auto parts = brought_to(step, b);
    return said[b].way == terms::ways::ring && first.size() > 2
             ? ring_of<float>(parts, first, b)
             : tree_of(parts, 0, on.who.replicas());
  }

  /// @returns true if the replica made progress.
  bool act(player& it) {
    const auto [what, b] = script[it.at];
    auto& own = on.of(it.id);
    if (what == op::kind::bring) {
      own.contribute(it.id, b, brought_to(it.step, b)[it.id], said[b]);
    } else if (what == op::kind::gather) {
      own.gather(it.id, b, brought_to(it.step, b)[it.id]);
    } else if (what == op::kind::want && gathers[b]) {
      if (own.gathered(it.id, b).empty())
        return false;
    } else if (what == op::kind::want) {
      const auto sum = own.sum_of(it.id, b);
      if (!sum)
        return false;
      EXPECT_TRUE(same_bits(sum, wanted(it.step, b)))
        << "bucket " << b << ", step " << it.step;
    } else {
      if (!on.settled(it.id))
        return false;
      own.leave(it.id);
      own.enter(it.id, ++it.step);
      it.at = 0;
      return true;
    }
    ++it.at;
    return true;
  }

  std::mt19937_64 rng;
  firsts first;
  house on;
  std::vector<op> script;
  std::vector<std::size_t> sizes;
  std::vector<terms> said;
  std::vector<bool> gathers;
  std::vector<player> players;
};

} // namespace

// -- bits ---------------------------------------------------------------------

TEST(Ring, GivesTheBitsOfItsOrderInEveryPlacement) {
  for (const auto& first : layouts)
    for (const bool views : {true, false})
      for (const auto size : sizes)
        walk<float>(first, views, size);
}

TEST(Ring, GivesTheBitsOfItsOrderForManyGroupsOfChunks) {
  walk<float>({0, 1, 4, 5}, true, 300'001);
}

TEST(Ring, AddsDoublesInTheSameOrder) {
  for (const auto& first : layouts)
    walk<double>(first, true, 30'000);
}

TEST(Ring, SumsIntegersExactly) {
  for (const auto& first : layouts) {
    SCOPED_TRACE(text_of(first));
    house on{first};
    const auto all = std::int64_t(on.who.replicas());
    on.seat(1);
    on.enter(0);
    for (std::uint32_t r = 0; r < all; ++r) {
      tensor x{shape{70'000}};
      for (std::size_t i = 0; i < x.size(); ++i)
        x.mutable_data<float>()[i] = float(r * 1000 + i % 1000);
      on.of(r).contribute(r, 0, x, ringed);
    }
    on.pump_all();
    for (std::uint32_t r = 0; r < all; ++r) {
      const auto sum = on.of(r).sum_of(r, 0);
      for (std::size_t i = 0; i < sum.size(); ++i)
        ASSERT_EQ(sum.data<float>()[i],
                  float(all * (all - 1) / 2 * 1000 + all * (i % 1000)))
          << i;
    }
  }
}

/// See docs/protocols/ring.md, "Which bits".
TEST(Ring, BitsDependOnThePlacementAndThoseOfTheTreeDoNot) {
  const auto parts = parts_of<float>(4, 5000, 3);
  const auto two = ring_of<float>(parts, {0, 2, 4}, 0);
  const auto four = ring_of<float>(parts, {0, 1, 2, 3, 4}, 0);
  EXPECT_FALSE(same_bits(two, four));
  EXPECT_FALSE(same_bits(four, tree_of(parts, 0, 4)));
}

// -- costs --------------------------------------------------------------------

TEST(Ring, SendsTwiceTheBucketLessItsOwnShareToTheNextProcessOnly) {
  for (const std::uint32_t p : {2, 3, 4, 5}) {
    firsts first;
    for (std::uint32_t i = 0; i <= p; ++i)
      first.push_back(2 * i);
    house on{first, 8};
    const auto size = std::int64_t{1} << 20;
    on.seat(1);
    on.enter(0);
    for (std::uint32_t r = 0; r < 2 * p; ++r)
      on.of(r).contribute(r, 0, tensor::full({size}, 1), ringed);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t i = 0; i < p; ++i) {
        moved |= on.pump(i);
        for (std::uint32_t to = 0; to < p; ++to)
          for (const auto q : {queue::parts, queue::sums})
            ASSERT_TRUE(to == (i + 1) % p || on.office.of(i, to, q).empty());
      }
    }
    ASSERT_TRUE(on.settled());
    const auto fair = 2.0 * (p - 1) / p * double(size) * 4;
    for (const auto sent : on.office.sent)
      EXPECT_NEAR(double(sent), fair, 0.06 * fair) << p;
  }
}

TEST(Ring, CutsAsTheTreeButHasNoAllToAllBuckets) {
  using c = cut;
  constexpr auto way = terms::ways::ring;
  constexpr auto f = dtype::float32;
  EXPECT_EQ(cut_of(0, f, 2, way), (c{0, 0, false}));
  EXPECT_EQ(cut_of(1, f, 2, way), (c{1, 1, false}));
  EXPECT_EQ(cut_of(8193, f, 3, way), (c{4096, 3, false}));
  EXPECT_EQ(cut_of(1 << 24, f, 2, way), cut_of(1 << 24, f, 2));
}

// -- queues -------------------------------------------------------------------

TEST(Ring, NeverDeadlocksMixedWithTreesAndGathersAndQueuesOfOne) {
  for (std::uint64_t seed = 0; seed < test::seeds_of(50); ++seed) {
    play it{seed};
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + text_of(it.first));
    const auto over = [](const player& x) { return x.step == 3; };
    for (int turns = 0; !std::ranges::all_of(it.players, over); ++turns) {
      ASSERT_LT(turns, 300'000) << "deadlock";
      const auto p = std::uint32_t(it.rng() % it.on.who.processes());
      it.on.pump(p);
      ASSERT_FALSE(it.on.machines[p]->wrong())
        << it.on.machines[p]->wrong()->why;
      auto& one = it.players[it.rng() % it.players.size()];
      if (!over(one))
        it.act(one);
    }
    EXPECT_LE(it.on.office.most, it.on.office.capacity);
  }
}

TEST(Ring, EmptyBucketNeedsNoPacket) {
  house on{{0, 1, 2, 3}};
  on.seat(1);
  on.enter(0);
  for (std::uint32_t r = 0; r < 3; ++r)
    on.of(r).contribute(r, 0, tensor::zeros({0}), ringed);
  EXPECT_EQ(on.of(0).sum_of(0, 0).size(), 0u);
  on.pump_all();
  EXPECT_TRUE(on.settled());
  EXPECT_EQ(on.office.sent[0], 0u);
}
