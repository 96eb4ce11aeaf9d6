#include "troupe/tensors/context.hpp"
#include "troupe/tests/actors/group/groups.hpp"

#include <gtest/gtest.h>

#include <omp.h>

using namespace troupe;
using namespace troupe::testing;

namespace {

std::unique_ptr<crew> crew_of(std::uint32_t replicas) {
  return make_inline_crew({.replicas = replicas, .seed = 42});
}

} // namespace

TEST(SequentialGroup, EveryReplicaGetsTheCanonicalSum) {
  for (const std::uint32_t replicas : {1, 2, 3, 5}) {
    outcome out;
    EXPECT_EQ(crew_of(replicas)->run(out.job(4, 3)), 7u);
    for (std::uint64_t s = 4; s < 7; ++s)
      for (std::uint32_t r = 0; r < replicas; ++r)
        for (const auto bucket : {small, large})
          EXPECT_TRUE(same_bits(out.sums.at({r, s, bucket}),
                                tree(0, replicas, s, bucket)));
  }
}

TEST(SequentialGroup, CommitsEachStepOnceWithTheTotals) {
  outcome out;
  crew_of(3)->run(out.job(10, 2));
  ASSERT_EQ(out.commits.size(), 2u);
  EXPECT_EQ(out.commits[1].step, 11u);
  EXPECT_EQ(out.commits[1].contributors, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(out.commits[1].total.examples, 6u);
  EXPECT_EQ(out.commits[1].total.loss_sum, (0.1 * 11 + 0.1 * 12) + 0.1 * 13);
  EXPECT_EQ(out.commits[1].total.correct, 33);
}

TEST(SequentialGroup, WithOneReplicaTheSumIsTheContribution) {
  const auto mine = tensor::full({8}, 1);
  bool shared = false;
  crew_of(1)->run({0,
                   1,
                   [&](step_context& at) {
                     at.contribute(0, mine);
                     shared = at.sum(0).shares_storage_with(mine);
                     EXPECT_EQ(at.gather(0, mine).size(), 1u);
                   },
                   {}});
  EXPECT_TRUE(shared);
}

TEST(SequentialGroup, GathersInReplicaOrder) {
  int seen = 0;
  crew_of(5)->run({0,
                   2,
                   [&](step_context& at) {
                     auto mine = tensor::full({2}, at.replica);
                     const auto all = at.gather(1, mine);
                     ASSERT_EQ(all.size(), 5u);
                     for (std::uint32_t r = 0; r < 5; ++r)
                       EXPECT_EQ(all[r].data<float>()[1], float(r));
                     ++seen;
                   },
                   {}});
  EXPECT_EQ(seen, 10);
}

TEST(SequentialGroup, StopsAfterTheCurrentStep) {
  for (const std::uint32_t replicas : {1, 3}) {
    const auto it = crew_of(replicas);
    outcome out;
    auto job = out.job(0, 100);
    job.on_commit = [&](const commit_record& x) {
      if (x.step == 4)
        it->stop();
    };
    EXPECT_EQ(it->run(job), 5u);
    EXPECT_EQ(it->run(out.job(5, 1)), 6u);
    EXPECT_EQ(out.commits.back().epoch,
              1u); // it continued where the last run ended
  }
}

TEST(SequentialGroup, PassesAnExceptionAndCanRunAgain) {
  for (const std::uint32_t replicas : {1, 3}) {
    const auto it = crew_of(replicas);
    int unwound = 0;
    struct guard {
      int& count;
      ~guard() { ++count; }
    };
    const auto broken = [&](step_context& at) {
      const guard g{unwound};
      at.contribute(0, tensor::full({2}, 1));
      if (at.replica == replicas - 1)
        throw std::out_of_range("the user's error");
      at.sum(0);
      ADD_FAILURE() << "the sum cannot be complete";
    };
    EXPECT_THROW(it->run({0, 1, broken, {}}), std::out_of_range);
    EXPECT_EQ(unwound, int(replicas));
    outcome out;
    EXPECT_EQ(it->run(out.job(0, 1)), 1u);
    EXPECT_EQ(out.commits[0].epoch,
              2u); // nothing of the old generation is used
    EXPECT_TRUE(
      same_bits(out.sums.at({0, 0, small}), tree(0, replicas, 0, small)));
  }
}

TEST(SequentialGroup, NamesTheReplicaThatASumMisses) {
  const auto it = crew_of(3);
  const auto text = failure_of(
    [&] {
      it->run({7,
               1,
               [](step_context& at) {
                 if (at.replica == 1)
                   return;
                 at.contribute(6, tensor::full({1}, 1));
                 at.sum(6);
               },
               {}});
    },
    ec::stalled);
  EXPECT_TRUE(mentions(text, "step 7")) << text;
  EXPECT_TRUE(mentions(text, "sum of bucket 6")) << text;
  EXPECT_TRUE(mentions(text, "misses replica 1")) << text;
}

TEST(SequentialGroup, NamesAMissingContributionToASumNotAwaited) {
  const auto text = failure_of(
    [&] {
      crew_of(2)->run({0,
                       1,
                       [](step_context& at) {
                         if (at.replica == 0)
                           at.contribute(5, tensor::full({1}, 1));
                       },
                       {}});
    },
    ec::stalled);
  EXPECT_TRUE(mentions(text, "sum of bucket 5 misses replica 1")) << text;
}

TEST(SequentialGroup, RunsEachReplicaInItsOwnContext) {
  for (const std::uint32_t replicas : {1, 3}) {
    const auto it = crew_of(replicas);
    std::vector<std::uint32_t> visited;
    std::array<char, 3>
      seen{}; // the elements' addresses distinguish the replicas
    it->for_each([&](std::uint32_t r) {
      EXPECT_EQ(current_context().replica, r);
      current_context().place = &seen[r];
      visited.push_back(r);
    });
    EXPECT_EQ(visited.size(), replicas);
    it->run({3,
             1,
             [&](step_context& at) {
               at.contribute(0, tensor::full({1}, 1));
               at.sum(0);
               const auto& mine = current_context();
               EXPECT_EQ(mine.replica, at.replica);
               EXPECT_EQ(mine.place, &seen[at.replica]);
               EXPECT_EQ(mine.random.seed, 42u);
               EXPECT_EQ(mine.random.step, 3u);
               EXPECT_EQ(mine.random.replica, at.replica);
             },
             {}});
    EXPECT_EQ(current_context().place, nullptr);
  }
}

TEST(SequentialGroup, RejectsMisuseOfBuckets) {
  for (const std::uint32_t replicas : {1, 2}) {
    const auto it = crew_of(replicas);
    const auto x = tensor::full({1}, 1);
    EXPECT_THROW(it->run({0, 1, [&](step_context& at) { at.sum(0); }, {}}),
                 std::logic_error);
    EXPECT_THROW(it->run({0,
                          1,
                          [&](step_context& at) {
                            at.contribute(0, x);
                            at.contribute(0, x);
                          },
                          {}}),
                 std::logic_error);
    EXPECT_THROW(it->run({0, 1, [&](step_context&) { it->run({}); }, {}}),
                 std::logic_error);
  }
}

TEST(SequentialGroup, RejectsInvalidOptions) {
  EXPECT_THROW(make_inline_crew({.replicas = 0}), std::invalid_argument);
  EXPECT_THROW(make_inline_crew({.threads = 0}), std::invalid_argument);
  EXPECT_THROW(make_inline_crew({.patience = {}}), std::invalid_argument);
}

TEST(SequentialGroup, ForEachUsesTheThreadsOfAReplica) {
  std::vector<std::uint32_t> seen;
  for (const std::uint32_t replicas : {1, 2}) {
    use_threads(1);
    const auto crew = make_inline_crew({.replicas = replicas, .threads = 3});
    crew->for_each([&](std::uint32_t r) {
      seen.push_back(r);
      EXPECT_EQ(current_context().replica, r);
      EXPECT_EQ(::omp_get_max_threads(), 3);
    });
  }
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{0, 0, 1}));
  use_threads(1);
}
