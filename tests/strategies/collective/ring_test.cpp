#include "troupe/tests/strategies/collective/rings.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::collective;
using namespace troupe::collective::testing;

namespace {

/// Placements on 1 to 5 processes, with equal and unequal numbers of replicas
/// per process.
const auto ring_layouts = with_scattered({{0, 1},
                                          {0, 3},
                                          {0, 1, 2},
                                          {0, 3, 4},
                                          {0, 1, 6},
                                          {0, 1, 2, 3},
                                          {0, 3, 5, 6},
                                          {0, 1, 2, 3, 4},
                                          {0, 1, 4, 5, 9},
                                          {0, 2, 4, 6, 8},
                                          {0, 1, 2, 3, 4, 5},
                                          {0, 4, 5, 8, 10, 11}});

/// Numbers of elements of a bucket: one element, full chunks, and one element
/// more or less than full chunks.
const std::vector<std::size_t> sizes{1, 8192, 8193, 20'479, 20'480, 20'481};

template <class T>
void walk(const placement& layout, bool views, std::size_t size) {
  SCOPED_TRACE(text_of(layout) + (views ? ", views, " : ", fetched, ")
               + std::to_string(size));
  process_group group{layout, 1, views, size};
  const auto replicas = group.placed.replicas();
  const auto inputs = inputs_of<T>(replicas, size, size);
  group.begin_generation(1);
  group.begin_step(5);
  // Collective b of the step sums bucket b. The ring starts chunk 0 of
  // collective b at process b mod P. If there are P > 1 processes, the sums of
  // the two buckets start at different processes.
  for (std::uint32_t b = 0; b < 2; ++b)
    for (std::uint32_t r = 0; r < replicas; ++r)
      group.machine_of(r).contribute(r, b, inputs[r], ringed);
  for (int i = 0; i < 20'000 && !group.is_drained(); ++i)
    group.progress_all();
  ASSERT_TRUE(group.is_drained());
  for (std::uint32_t b = 0; b < 2; ++b) {
    const auto wanted = ring_sum_of<T>(inputs, layout, b);
    for (std::uint32_t r = 0; r < replicas; ++r)
      ASSERT_TRUE(same_bits(group.machine_of(r).sum_of(r, b), wanted))
        << b << ", " << r;
  }
}

struct op {
  enum class kind { contribute, gather, wait, finish } action;
  std::uint32_t bucket = 0;
};

struct player {
  std::uint32_t id;
  std::size_t position = 0;
  std::uint64_t step = 0;
};

/// Replicas that all execute one script, each at its own speed.
struct scripted_run {
  static constexpr std::uint32_t buckets = 10;

  explicit scripted_run(std::uint64_t seed)
    : rng{seed},
      layout{ring_layouts[rng() % ring_layouts.size()]},
      group{layout, 1 + rng() % 2, rng() % 2 == 0, seed} {
    for (std::uint32_t b = 0; b < buckets; ++b) {
      constexpr std::array<std::size_t, 6> some{0, 1, 300, 8192, 9000, 30'000};
      sizes.push_back(some[rng() % 6]);
      options.push_back({rng() % 3 == 0
                           ? collective_options::algorithm_kind::tree
                           : collective_options::algorithm_kind::ring});
      gathers.push_back(rng() % 5 == 0);
      script.push_back(
        {gathers[b] ? op::kind::gather : op::kind::contribute, b});
      if (rng() % 3 == 0)
        script.push_back({op::kind::wait, b});
    }
    script.push_back({op::kind::finish});
    group.begin_generation(1);
    group.begin_step(0);
    for (std::uint32_t r = 0; r < group.placed.replicas(); ++r)
      players.push_back({r});
  }

  tensors inputs_of_step(std::uint64_t step, std::uint32_t b) const {
    return inputs_of<float>(group.placed.replicas(), sizes[b], step * 100 + b);
  }

  tensor expected_sum(std::uint64_t step, std::uint32_t b) const {
    const auto inputs = inputs_of_step(step, b);
    return options[b].algorithm == collective_options::algorithm_kind::ring
               && layout.processes() > 1
             ? ring_sum_of<float>(inputs, layout, b)
             : tree_of(inputs, 0, group.placed.replicas());
  }

  /// Returns true if the replica made progress.
  bool act(player& current) {
    const auto [action, b] = script[current.position];
    auto& machine = group.machine_of(current.id);
    if (action == op::kind::contribute) {
      machine.contribute(
        current.id, b, inputs_of_step(current.step, b)[current.id], options[b]);
    } else if (action == op::kind::gather) {
      machine.gather(current.id, b,
                     inputs_of_step(current.step, b)[current.id]);
    } else if (action == op::kind::wait && gathers[b]) {
      if (machine.gathered(current.id, b).empty())
        return false;
    } else if (action == op::kind::wait) {
      const auto sum = machine.sum_of(current.id, b);
      if (!sum)
        return false;
      EXPECT_TRUE(same_bits(sum, expected_sum(current.step, b)))
        << "bucket " << b << ", step " << current.step;
    } else {
      if (!group.is_drained(current.id))
        return false;
      machine.end_step(current.id);
      machine.begin_step(current.id, ++current.step);
      current.position = 0;
      return true;
    }
    ++current.position;
    return true;
  }

  std::mt19937_64 rng;
  placement layout;
  process_group group;
  std::vector<op> script;
  std::vector<std::size_t> sizes;
  std::vector<collective_options> options;
  std::vector<bool> gathers;
  std::vector<player> players;
};

} // namespace

// -- bits ---------------------------------------------------------------------

TEST(Ring, GivesTheBitsOfItsOrderInEveryPlacement) {
  for (const auto& layout : ring_layouts)
    for (const bool views : {true, false})
      for (const auto size : sizes)
        walk<float>(layout, views, size);
}

TEST(Ring, GivesTheBitsOfItsOrderForManyGroupsOfChunks) {
  walk<float>(placement::contiguous({1, 3, 1}), true, 300'001);
}

TEST(Ring, AddsDoublesInTheSameOrder) {
  for (const auto& layout : ring_layouts)
    walk<double>(layout, true, 30'000);
}

TEST(Ring, SumsIntegersExactly) {
  for (const auto& layout : ring_layouts) {
    SCOPED_TRACE(text_of(layout));
    process_group group{layout};
    const auto replicas = std::int64_t(group.placed.replicas());
    group.begin_generation(1);
    group.begin_step(0);
    for (std::uint32_t r = 0; r < replicas; ++r) {
      tensor x{shape{70'000}};
      for (std::size_t i = 0; i < x.size(); ++i)
        x.mutable_data<float>()[i] = float(r * 1000 + i % 1000);
      group.machine_of(r).contribute(r, 0, x, ringed);
    }
    group.progress_all();
    for (std::uint32_t r = 0; r < replicas; ++r) {
      const auto sum = group.machine_of(r).sum_of(r, 0);
      for (std::size_t i = 0; i < sum.size(); ++i)
        ASSERT_EQ(
          sum.data<float>()[i],
          float(replicas * (replicas - 1) / 2 * 1000 + replicas * (i % 1000)))
          << i;
    }
  }
}

/// Another placement changes the bits of a sum by ring, but not by tree. See
/// docs/protocols/ring.md, "Which bits".
TEST(Ring, BitsDependOnThePlacementAndThoseOfTheTreeDoNot) {
  const auto inputs = inputs_of<float>(4, 5000, 3);
  const auto two = ring_sum_of<float>(inputs, placement::contiguous({2, 2}), 0);
  const auto four =
    ring_sum_of<float>(inputs, placement::contiguous({1, 1, 1, 1}), 0);
  EXPECT_FALSE(same_bits(two, four));
  EXPECT_FALSE(same_bits(four, tree_of(inputs, 0, 4)));
}

// -- costs --------------------------------------------------------------------

TEST(Ring, SendsTwiceTheBucketLessItsOwnShareToTheNextProcessOnly) {
  for (const std::uint32_t p : {2, 3, 4, 5}) {
    firsts first;
    for (std::uint32_t i = 0; i <= p; ++i)
      first.push_back(2 * i);
    process_group group{first, 8};
    const auto size = std::int64_t{1} << 20;
    group.begin_generation(1);
    group.begin_step(0);
    for (std::uint32_t r = 0; r < 2 * p; ++r)
      group.machine_of(r).contribute(r, 0, tensor::full({size}, 1), ringed);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t i = 0; i < p; ++i) {
        moved |= group.progress(i);
        for (std::uint32_t to = 0; to < p; ++to)
          for (const auto q : {lane_id::contributions, lane_id::results})
            ASSERT_TRUE(to == (i + 1) % p
                        || group.queues.between(i, to, q).empty());
      }
    }
    ASSERT_TRUE(group.is_drained());
    const auto fair = 2.0 * (p - 1) / p * double(size) * 4;
    for (const auto sent : group.queues.sent)
      EXPECT_NEAR(double(sent), fair, 0.06 * fair) << p;
  }
}

TEST(Ring, CutsAsTheTreeButHasNoAllToAllBuckets) {
  using c = chunking;
  constexpr auto way = collective_options::algorithm_kind::ring;
  constexpr auto f = dtype::float32;
  EXPECT_EQ(chunking_of(0, f, 2, way), (c{0, 0, false}));
  EXPECT_EQ(chunking_of(1, f, 2, way), (c{1, 1, false}));
  EXPECT_EQ(chunking_of(8193, f, 3, way), (c{4096, 3, false}));
  EXPECT_EQ(chunking_of(1 << 24, f, 2, way), chunking_of(1 << 24, f, 2));
}

// -- queues -------------------------------------------------------------------

TEST(Ring, NeverDeadlocksMixedWithTreesAndGathersAndQueuesOfOne) {
  for (std::uint64_t seed = 0; seed < test::seeds_of(50); ++seed) {
    scripted_run current{seed};
    SCOPED_TRACE("seed " + std::to_string(seed) + ", "
                 + text_of(current.layout));
    const auto over = [](const player& x) { return x.step == 3; };
    for (int turns = 0; !std::ranges::all_of(current.players, over); ++turns) {
      ASSERT_LT(turns, 300'000) << "deadlock";
      const auto p =
        std::uint32_t(current.rng() % current.group.placed.processes());
      current.group.progress(p);
      ASSERT_FALSE(current.group.machines[p]->error())
        << current.group.machines[p]->error()->reason;
      auto& one = current.players[current.rng() % current.players.size()];
      if (!over(one))
        current.act(one);
    }
    EXPECT_LE(current.group.queues.max_length, current.group.queues.capacity);
  }
}

TEST(Ring, EmptyBucketNeedsNoPacket) {
  process_group group{{0, 1, 2, 3}};
  group.begin_generation(1);
  group.begin_step(0);
  for (std::uint32_t r = 0; r < 3; ++r)
    group.machine_of(r).contribute(r, 0, tensor::zeros({0}), ringed);
  EXPECT_EQ(group.machine_of(0).sum_of(0, 0).size(), 0u);
  group.progress_all();
  EXPECT_TRUE(group.is_drained());
  EXPECT_EQ(group.queues.sent[0], 0u);
}
