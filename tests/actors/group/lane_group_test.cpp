#include "troupe/tests/actors/collectives/lane_backends.hpp"
#include "troupe/tests/actors/collectives/packet_fault.hpp"

#include <gtest/gtest.h>

#include <atomic>

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

const std::vector<firsts> layouts{{0, 1, 2}, {0, 2, 3}, {0, 1, 2, 5}};

} // namespace

TEST(LaneGroup, ResultsEqualThoseOfTheSequentialGroup) {
  for (const auto& lanes : {"shm", "stream"})
    for (const auto& first : layouts) {
      SCOPED_TRACE(std::string{lanes} + ", " + std::to_string(first.size() - 1)
                   + " processes");
      outcome wanted, out;
      const auto end =
        make_inline_crew({.replicas = first.back()})->run(wanted.job(4, 8));
      plane_stage on{first, lanes};
      EXPECT_EQ(on.run(out.job(4, 8)), end);
      EXPECT_EQ(out.commits, wanted.commits);
      ASSERT_EQ(out.sums.size(), wanted.sums.size());
      for (const auto& [key, sum] : wanted.sums)
        EXPECT_TRUE(same_bits(out.sums.at(key), sum));
    }
}

TEST(LaneGroup, GathersAlthoughReplicasRunAheadInOtherSteps) {
  plane_stage on{{0, 2, 3}, "shm"};
  std::atomic<int> right = 0;
  on.run({0,
          30,
          [&](step_context& at) {
            if (at.step % 3 != 0)
              return;
            const tensor mine =
              tensor::full({1 + std::int64_t(at.replica)}, at.step);
            const auto all = at.gather(1, mine);
            for (std::uint32_t r = 0; r < 3; ++r)
              right += all[r].size() == r + 1
                       && all[r].data<float>()[r] == float(at.step);
          },
          {}});
  EXPECT_EQ(right, 90);
}

TEST(LaneGroup, RunsInANewGenerationAfterAnException) {
  for (const auto& first : layouts)
    for (std::uint32_t bad = 0; bad < first.back(); ++bad) {
      plane_stage on{first, "shm"};
      const auto why = failure_of(
        [&] {
          on.run({0,
                  5,
                  [&](step_context& at) {
                    at.contribute(0, tensor::full({100'000}, 1));
                    if (at.step == 2 && at.replica == bad)
                      throw std::runtime_error("enough");
                    at.contribute(1, tensor::full({10}, 1));
                    at.sum(0);
                    at.sum(1);
                  },
                  {}});
        },
        ec::invalid);
      EXPECT_TRUE(mentions(why, "enough")) << why;
      outcome wanted, out;
      make_inline_crew({.replicas = first.back()})->run(wanted.job(0, 3));
      on.run(out.job(0, 3));
      for (const auto& [key, sum] : wanted.sums)
        ASSERT_TRUE(same_bits(out.sums.at(key), sum));
    }
}

TEST(LaneGroup, NamesALostProcessTheOperationAndTheStep) {
  plane_stage on{{0, 1, 3}, "stream"};
  const auto why = failure_of(
    [&] {
      on.run({0,
              10,
              [&](step_context& at) {
                if (at.step >= 4 && at.replica != 0)
                  on.over.cut(1);
                else
                  at.contribute(3, tensor::full({10}, 1));
                if (at.step < 4 || at.replica == 0)
                  at.sum(3);
              },
              {}});
    },
    ec::peer_lost);
  EXPECT_TRUE(mentions(
    why,
    "process 1 (replicas 1, 2) was lost: the peer has closed the "
    "connection, while replica 0 waited for the sum of bucket 3 in step 4"))
    << why;
}

TEST(LaneGroup, NamesBothOperationsIfReplicasDiffer) {
  plane_stage on{{0, 1, 2}, "stream"};
  const auto why = failure_of(
    [&] {
      on.run({0,
              10,
              [](step_context& at) {
                const std::int64_t size = at.step == 3 && at.replica == 1;
                at.contribute(6, tensor::full({10 + size}, 1));
                at.sum(6);
              },
              {}});
    },
    ec::protocol);
  EXPECT_TRUE(mentions(why, "where bucket 6 of 1")) << why;
  EXPECT_TRUE(mentions(why, "the replicas do not call the same collectives"));
}

TEST(LaneGroup, EndsAWaitAtTheTimeoutOfItsCollective) {
  std::atomic<bool> over = false;
  plane_stage on{{0, 1, 2}, "shm"};
  const auto why = failure_of(
    [&] {
      on.run({0,
              2,
              [&](step_context& at) {
                at.said.timeout = 50;
                while (at.replica == 1 && at.step == 1 && !over)
                  std::this_thread::yield();
                at.contribute(2, tensor::full({10}, 1));
                try {
                  at.sum(2);
                } catch (const superseded&) {
                  over = true;
                  throw;
                }
              },
              {}});
    },
    ec::stalled);
  EXPECT_EQ(why,
            "replica 0 waited for the sum of bucket 2 in step 1 for 50 ms, "
            "the timeout of its call; it misses replica 1");
}

TEST(LaneGroup, AStallNamesTheMissingReplica) {
  std::atomic<bool> over = false;
  plane_stage on{{0, 1, 2}, "shm", 300ms};
  const auto why = failure_of(
    [&] {
      on.run({0,
              2,
              [&](step_context& at) {
                while (at.replica == 1 && at.step == 1 && !over)
                  std::this_thread::yield();
                at.contribute(2, tensor::full({10}, 1));
                at.sum(2);
              },
              {}});
    },
    ec::stalled);
  over = true;
  EXPECT_TRUE(mentions(
    why, "replica 0 waits for the sum of bucket 2, still missing replica 1"))
    << why;
}

TEST(LaneGroup, DuplicateOrLatePacketsChangeNoBit) {
  for (const auto what : {subject::part, subject::sum})
    for (const auto to :
         {fault_seam::fate{.twice = true}, fault_seam::fate{.delay = 2ms}}) {
      const auto seam = std::make_shared<meddler>(what, 1, to);
      outcome wanted, out;
      make_inline_crew({.replicas = 3})->run(wanted.job(0, 3));
      plane_stage on{{0, 1, 2, 3}, "shm", 10s, seam};
      on.run(out.job(0, 3));
      EXPECT_GT(seam->times, 0);
      for (const auto& [key, sum] : wanted.sums)
        ASSERT_TRUE(same_bits(out.sums.at(key), sum));
    }
}

TEST(LaneGroup, NamesTheMissingInputWhenPacketsAreDropped) {
  for (const auto what : {subject::part, subject::sum}) {
    const auto seam =
      std::make_shared<meddler>(what, 1, fault_seam::fate{.dropped = true});
    outcome out;
    plane_stage on{{0, 1, 2}, "shm", 300ms, seam};
    const auto why = failure_of([&] { on.run(out.job(0, 4)); }, ec::stalled);
    EXPECT_TRUE(mentions(why, "waits for the sum of bucket")) << why;
    EXPECT_TRUE(mentions(why, "still missing replica")) << why;
    outcome again;
    EXPECT_EQ(on.run(again.job(2, 2)), 4u);
  }
}
