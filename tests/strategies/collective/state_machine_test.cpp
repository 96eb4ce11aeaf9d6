#include "troupe/tests/strategies/collective/packet_queues.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::collective;
using namespace troupe::collective::testing;

namespace {

const auto layouts = with_scattered({{0, 1},
                                     {0, 3},
                                     {0, 1, 2},
                                     {0, 2, 4},
                                     {0, 3, 4},
                                     {0, 1, 4},
                                     {0, 1, 2, 3},
                                     {0, 3, 5, 6},
                                     {0, 1, 2, 3, 4},
                                     {0, 5, 6, 8},
                                     {0, 1, 4, 5, 9},
                                     {0, 1, 2, 3, 4, 5}});

/// A replica, and its position in the script that all replicas execute.
struct player {
  std::uint32_t id;
  std::size_t op = 0;
  std::uint64_t step = 0;
  std::vector<tensor> inputs{12};
};

struct collective_op {
  enum class kind { contribute, wait, gather, finish } action;
  std::uint32_t bucket = 0;
};

} // namespace

// -- bits ---------------------------------------------------------------------

TEST(Collective, GivesTheBitsOfTheTreeInEveryPlacement) {
  for (const auto& layout : layouts)
    for (const bool views : {true, false})
      for (const std::size_t size : {1, 7, 5000, 20'000, 300'001}) {
        SCOPED_TRACE(text_of(layout) + (views ? ", views, " : ", fetched, ")
                     + std::to_string(size));
        process_group group{layout, 2, views, size};
        const auto inputs =
          inputs_of<float>(group.placed.replicas(), size, size);
        group.begin_generation(1);
        group.begin_step(5);
        for (std::uint32_t r = 0; r < group.placed.replicas(); ++r)
          group.machine_of(r).contribute(r, 3, inputs[r]);
        group.progress_all();
        while (!views && !group.is_drained()) // a read that is incomplete
                                              // counts as no progress
          group.progress_all();
        ASSERT_TRUE(group.is_drained());
        const auto wanted = oracle(inputs);
        for (std::uint32_t r = 0; r < group.placed.replicas(); ++r)
          ASSERT_TRUE(same_bits(group.machine_of(r).sum_of(r, 3), wanted)) << r;
      }
}

TEST(Collective, OverwritesTheOnlyContributionIfAllowed) {
  for (const auto& layout : layouts)
    for (const bool views : {true, false})
      for (const std::size_t size : {7, 5000, 300'001}) {
        SCOPED_TRACE(text_of(layout) + (views ? ", views, " : ", fetched, ")
                     + std::to_string(size));
        process_group group{layout, 2, views, size};
        const auto replicas = group.placed.replicas();
        const auto inputs = inputs_of<float>(replicas, size, size);
        const auto wanted = oracle(inputs);
        const bool direct =
          chunking_of(size, dtype::float32, group.placed.processes())
            .all_to_all;
        group.begin_generation(1);
        group.begin_step(5);
        for (std::uint32_t r = 0; r < replicas; ++r)
          group.machine_of(r).contribute(r, 3, inputs[r], {},
                                         output_placement::in_place);
        for (int i = 0; i < 2000 && !group.is_drained(); ++i)
          group.progress_all();
        ASSERT_TRUE(group.is_drained());
        for (std::uint32_t r = 0; r < replicas; ++r) {
          const auto sum = group.machine_of(r).sum_of(r, 3);
          ASSERT_TRUE(same_bits(sum, wanted)) << r;
          const bool only =
            group.placed.replicas_of(group.placed.process_of(r)).size() == 1;
          EXPECT_EQ(sum.raw() == inputs[r].raw(), only && !direct) << r;
        }
      }
}

TEST(Collective, AddsDoublesInTheSameTree) {
  for (const auto& layout : layouts) {
    SCOPED_TRACE(text_of(layout));
    process_group group{layout};
    const auto inputs = inputs_of<double>(group.placed.replicas(), 30'000, 4);
    group.begin_generation(1);
    group.begin_step(0);
    for (std::uint32_t r = 0; r < group.placed.replicas(); ++r)
      group.machine_of(r).contribute(r, 0, inputs[r]);
    group.progress_all();
    for (std::uint32_t r = 0; r < group.placed.replicas(); ++r)
      ASSERT_TRUE(same_bits(group.machine_of(r).sum_of(r, 0), oracle(inputs)));
  }
}

TEST(Collective, SharesOneTensorAmongLocalReplicas) {
  process_group group{{0, 2, 3}};
  group.begin_generation(1);
  group.begin_step(0);
  for (std::uint32_t r = 0; r < 3; ++r)
    group.machine_of(r).contribute(r, 0, tensor::full({40'000}, r));
  group.progress_all();
  EXPECT_TRUE(group.machine_of(0).sum_of(0, 0).shares_storage_with(
    group.machine_of(1).sum_of(1, 0)));
}

// -- chunks -------------------------------------------------------------------

TEST(Collective, CutsOnlyByElementsTypeAndProcesses) {
  using c = chunking;
  constexpr auto f = dtype::float32;
  EXPECT_EQ(chunking_of(0, f, 2), (c{0, 0, false}));
  EXPECT_EQ(chunking_of(1, f, 2), (c{1, 1, true}));
  EXPECT_EQ(chunking_of(8192, f, 2), (c{8192, 1, true}));
  EXPECT_EQ(chunking_of(8192, f, 4), (c{8192, 1, false}));
  EXPECT_EQ(chunking_of(1 << 18, f, 2), (c{1 << 15, 8, false}));   // 1 MiB
  EXPECT_EQ(chunking_of(1 << 24, f, 2), (c{1 << 16, 256, false})); // 64 MiB
  EXPECT_EQ(chunking_of(1 << 24, f, 1), (c{1 << 16, 256, false}));
  for (std::uint32_t p = 1; p < 70; ++p)
    for (std::size_t n = 1; n < 10'000'000; n = n * 3 / 2 + 1)
      for (const auto type : {f, dtype::float64}) {
        const auto x = chunking_of(n, type, p);
        ASSERT_LE(x.chunk_elements * size_of(type), max_packet_bytes);
        ASSERT_GE(x.chunk_elements * x.count, n);
        ASSERT_LT(x.chunk_elements * (x.count - 1), n);
        ASSERT_TRUE(x.count == 1 || x.chunk_elements * size_of(type) % 64 == 0);
      }
}

TEST(Collective, SendsOneContributionPerMaximalSubtree) {
  const auto x = placement::contiguous({3, 1, 5});
  EXPECT_EQ(subtrees_of(x, 0), (std::vector<replica_range>{{0, 2}, {2, 3}}));
  EXPECT_EQ(subtrees_of(x, 1), (std::vector<replica_range>{{3, 4}}));
  EXPECT_EQ(subtrees_of(x, 2), (std::vector<replica_range>{{4, 8}, {8, 9}}));
  EXPECT_EQ(subtrees_of(placement{4}, 0), (std::vector<replica_range>{{0, 4}}));
  const placement scattered{
    std::vector<placement::id_list>{{0, 2, 3, 4, 5}, {1, 6}}};
  EXPECT_EQ(subtrees_of(scattered, 0),
            (std::vector<replica_range>{{0, 1}, {2, 4}, {4, 6}}));
  EXPECT_EQ(subtrees_of(scattered, 1),
            (std::vector<replica_range>{{1, 2}, {6, 7}}));
}

TEST(Collective, MovesTwiceTheBucketLessItsOwnShare) {
  for (const std::uint32_t p : {2, 3, 4, 5}) {
    firsts first;
    for (std::uint32_t i = 0; i <= p; ++i)
      first.push_back(2 * i); // each process hosts one subtree of two replicas
    process_group group{first};
    const std::size_t size = std::size_t{1} << 20;
    group.begin_generation(1);
    group.begin_step(0);
    for (std::uint32_t r = 0; r < 2 * p; ++r)
      group.machine_of(r).contribute(r, 0,
                                     tensor::full({std::int64_t(size)}, 1));
    group.progress_all();
    ASSERT_TRUE(group.is_drained());
    std::size_t sum = 0;
    for (const auto bytes : group.queues.sent) {
      EXPECT_NEAR(double(bytes), 2.0 * (p - 1) / p * double(4 * size),
                  2.0 * max_packet_bytes * p);
      sum += bytes;
    }
    EXPECT_EQ(sum, 2 * (p - 1) * 4 * size);
  }
}

TEST(Collective, SendsSmallBucketsInOneHop) {
  process_group group{{0, 1, 2, 3}};
  group.begin_generation(1);
  group.begin_step(0);
  for (std::uint32_t r = 0; r < 3; ++r)
    group.machine_of(r).contribute(r, 0, tensor::full({100}, 1));
  for (std::uint32_t r = 0; r < 3; ++r)
    while (group.progress(r)) {
    }
  while (group.progress(0)) {
  }
  EXPECT_TRUE(group.machine_of(0).sum_of(0, 0)); // complete after one hop
  EXPECT_EQ(group.queues.sent[0], 2u * 400);
}

// -- queues -------------------------------------------------------------------

TEST(Collective, NeverDeadlocksInAnyRandomSchedule) {
  using kind = collective_op::kind;
  for (std::uint64_t seed = 0; seed < test::seeds_of(60); ++seed) {
    std::mt19937_64 rng{seed};
    const auto& layout = layouts[rng() % layouts.size()];
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + text_of(layout));
    process_group group{layout, 1 + rng() % 3, rng() % 2 == 0, seed};
    std::vector<collective_op> script;
    std::vector<std::size_t> sizes;
    for (std::uint32_t b = 0; b < 12; ++b) {
      constexpr std::array<std::size_t, 5> some{0, 1, 300, 9000, 30'000};
      sizes.push_back(some[rng() % 5]);
      const bool gathers = rng() % 4 == 0;
      script.push_back({gathers ? kind::gather : kind::contribute, b});
      if (rng() % 3 == 0)
        script.push_back({kind::wait, b});
    }
    script.push_back({kind::finish});
    group.begin_generation(1);
    group.begin_step(0);
    std::vector<player> players;
    for (std::uint32_t r = 0; r < group.placed.replicas(); ++r)
      players.push_back({r});
    std::vector<bool> gathers(12);
    for (const auto& op : script)
      if (op.action == kind::gather)
        gathers[op.bucket] = true;
    std::size_t over = 0;
    for (int turns = 0; over < players.size(); ++turns) {
      ASSERT_LT(turns, 200'000) << "deadlock";
      const auto p = std::uint32_t(rng() % group.placed.processes());
      group.progress(p);
      auto& current = players[rng() % players.size()];
      auto& machine = group.machine_of(current.id);
      ASSERT_FALSE(machine.error()) << machine.error()->reason;
      if (current.step == 3)
        continue;
      const auto& op = script[current.op];
      const auto turn = current.step * 100 + op.bucket;
      if (op.action == kind::contribute) {
        current.inputs[op.bucket] =
          input_of<float>(sizes[op.bucket], turn * 1000 + current.id);
        machine.contribute(current.id, op.bucket, current.inputs[op.bucket], {},
                           output_placement(op.bucket % 2));
      } else if (op.action == kind::gather) {
        machine.gather(current.id, op.bucket,
                       input_of<float>(sizes[op.bucket] + current.id,
                                       turn * 1000 + current.id));
      } else if (op.action == kind::wait && gathers[op.bucket]) {
        const auto gathered = machine.gathered(current.id, op.bucket);
        if (gathered.empty())
          continue;
        for (std::uint32_t r = 0; r < group.placed.replicas(); ++r)
          ASSERT_TRUE(
            same_bits(gathered[r],
                      input_of<float>(sizes[op.bucket] + r, turn * 1000 + r)));
      } else if (op.action == kind::wait) {
        const auto sum = machine.sum_of(current.id, op.bucket);
        if (!sum)
          continue;
        ASSERT_TRUE(
          same_bits(sum, oracle(inputs_of<float>(group.placed.replicas(),
                                                 sizes[op.bucket], turn))));
        // no peer reads the contribution any more
        auto& mine = current.inputs[op.bucket];
        if (mine.raw() != sum.raw())
          std::ranges::fill(mine.mutable_data<float>(), 1e30F);
      } else {
        if (!group.is_drained(current.id))
          continue;
        machine.end_step(current.id);
        if (++current.step == 3)
          ++over;
        else
          machine.begin_step(current.id, current.step);
        current.op = 0;
        continue;
      }
      ++current.op;
    }
    EXPECT_LE(group.queues.max_length, group.queues.capacity);
  }
}

TEST(Collective, MakesAThousandSmallSumsInAStep) {
  process_group group{{0, 1, 2}, 8};
  group.begin_generation(1);
  for (std::uint64_t step = 0; step < 2; ++step) {
    group.begin_step(step);
    for (std::uint32_t b = 0; b < 1000; ++b)
      for (std::uint32_t r = 0; r < 2; ++r) {
        group.machine_of(r).contribute(r, b, tensor::full({1 + b % 50}, r + b));
        group.progress(r);
      }
    group.progress_all();
    ASSERT_TRUE(group.is_drained());
    for (std::uint32_t b = 0; b < 1000; ++b)
      ASSERT_EQ(group.machine_of(1).sum_of(1, b).data<float>().back(),
                2 * b + 1);
    group.end_step();
  }
}

TEST(Collective, EmptyBucketNeedsNoPacket) {
  process_group group{{0, 1, 2}};
  group.begin_generation(1);
  group.begin_step(0);
  for (std::uint32_t r = 0; r < 2; ++r)
    group.machine_of(r).contribute(r, 0, tensor::zeros({0}));
  EXPECT_EQ(group.machine_of(0).sum_of(0, 0).size(), 0u);
  group.progress_all();
  EXPECT_TRUE(group.is_drained());
  EXPECT_EQ(group.queues.sent[0], 0u);
}
