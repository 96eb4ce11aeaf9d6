#include "troupe/tensors/context.hpp"
#include "troupe/tests/actors/group/groups.hpp"

#include <gtest/gtest.h>

#include <omp.h>

using namespace troupe;
using namespace troupe::testing;

namespace {

std::unique_ptr<replica_group> make_group(std::uint32_t replicas) {
  return make_sequential_group({.replicas = replicas, .seed = 42});
}

} // namespace

TEST(SequentialGroup, EveryReplicaGetsTheCanonicalSum) {
  for (const std::uint32_t replicas : {1, 2, 3, 5}) {
    outcome out;
    EXPECT_EQ(make_group(replicas)->run(out.request(4, 3)), 7u);
    for (std::uint64_t s = 4; s < 7; ++s)
      for (std::uint32_t r = 0; r < replicas; ++r)
        for (const auto bucket : {small, large})
          EXPECT_TRUE(same_bits(out.sums.at({r, s, bucket}),
                                expected_sum(0, replicas, s, bucket)));
  }
}

TEST(SequentialGroup, CommitsEachStepOnceWithTheTotals) {
  outcome out;
  make_group(3)->run(out.request(10, 2));
  ASSERT_EQ(out.commits.size(), 2u);
  EXPECT_EQ(out.commits[1].step, 11u);
  EXPECT_EQ(out.commits[1].contributors, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(out.commits[1].total.examples, 6u);
  EXPECT_EQ(out.commits[1].total.sums,
            (std::vector{(0.1 * 11 + 0.1 * 12) + 0.1 * 13, 33.0}));
}

TEST(SequentialGroup, WithOneReplicaTheSumIsTheContribution) {
  const auto contribution = tensor::full({8}, 1);
  bool shared = false;
  make_group(1)->run({0,
                      1,
                      [&](step_context& context) {
                        context.contribute(0, contribution);
                        shared =
                          context.sum(0).shares_storage_with(contribution);
                        EXPECT_EQ(context.gather(0, contribution).size(), 1u);
                      },
                      {}});
  EXPECT_TRUE(shared);
}

TEST(SequentialGroup, GathersInReplicaOrder) {
  int seen = 0;
  make_group(5)->run({0,
                      2,
                      [&](step_context& context) {
                        auto contribution = tensor::full({2}, context.replica);
                        const auto gathered = context.gather(1, contribution);
                        ASSERT_EQ(gathered.size(), 5u);
                        for (std::uint32_t r = 0; r < 5; ++r)
                          EXPECT_EQ(gathered[r].data<float>()[1], float(r));
                        ++seen;
                      },
                      {}});
  EXPECT_EQ(seen, 10);
}

TEST(SequentialGroup, StopsAfterTheCurrentStep) {
  for (const std::uint32_t replicas : {1, 3}) {
    const auto group = make_group(replicas);
    outcome out;
    auto job = out.request(0, 100);
    job.on_commit = [&](const commit_record& record) {
      if (record.step == 4)
        group->stop();
    };
    EXPECT_EQ(group->run(job), 5u);
    EXPECT_EQ(group->run(out.request(5, 1)), 6u);
    EXPECT_EQ(out.commits.back().generation,
              1u); // the second run continued the first
  }
}

TEST(SequentialGroup, PassesAnExceptionAndCanRunAgain) {
  for (const std::uint32_t replicas : {1, 3}) {
    const auto group = make_group(replicas);
    int unwound = 0;
    struct guard {
      int& count;
      ~guard() { ++count; }
    };
    const auto broken = [&](step_context& context) {
      const guard g{unwound};
      context.contribute(0, tensor::full({2}, 1));
      if (context.replica == replicas - 1)
        throw std::out_of_range("the user's error");
      context.sum(0);
      ADD_FAILURE() << "the sum cannot be complete";
    };
    EXPECT_THROW(group->run({0, 1, broken, {}}), std::out_of_range);
    EXPECT_EQ(unwound, int(replicas));
    outcome out;
    EXPECT_EQ(group->run(out.request(0, 1)), 1u);
    EXPECT_EQ(out.commits[0].generation,
              2u); // the failed run is not continued
    EXPECT_TRUE(same_bits(out.sums.at({0, 0, small}),
                          expected_sum(0, replicas, 0, small)));
  }
}

TEST(SequentialGroup, NamesTheReplicaThatASumMisses) {
  const auto group = make_group(3);
  const auto text = job_error_of(
    [&] {
      group->run({7,
                  1,
                  [](step_context& context) {
                    if (context.replica == 1)
                      return;
                    context.contribute(6, tensor::full({1}, 1));
                    context.sum(6);
                  },
                  {}});
    },
    ec::stalled);
  EXPECT_EQ(text, "step 7 stalled: replica 0 waits for the sum of bucket 6, "
                  "still missing replica 1");
}

TEST(SequentialGroup, NamesAMissingContributionToASumNotAwaited) {
  const auto text = job_error_of(
    [&] {
      make_group(2)->run({0,
                          1,
                          [](step_context& context) {
                            if (context.replica == 0)
                              context.contribute(5, tensor::full({1}, 1));
                          },
                          {}});
    },
    ec::stalled);
  EXPECT_EQ(text, "step 0 stalled: replica 0 waits for the sum of bucket 5, "
                  "still missing replica 1");
}

TEST(SequentialGroup, RunsEachReplicaInItsOwnContext) {
  for (const std::uint32_t replicas : {1, 3}) {
    const auto group = make_group(replicas);
    std::vector<std::uint32_t> visited;
    std::array<char, 3>
      seen{}; // the elements' addresses distinguish the replicas
    group->for_each([&](std::uint32_t r) {
      EXPECT_EQ(current_context().copy_index, r);
      current_context().execution_scope = &seen[r];
      visited.push_back(r);
    });
    EXPECT_EQ(visited.size(), replicas);
    group->run({3,
                1,
                [&](step_context& context) {
                  context.contribute(0, tensor::full({1}, 1));
                  context.sum(0);
                  const auto& op_context = current_context();
                  EXPECT_EQ(op_context.copy_index, context.replica);
                  EXPECT_EQ(op_context.execution_scope, &seen[context.replica]);
                  EXPECT_EQ(op_context.random.seed, 42u);
                  EXPECT_EQ(op_context.random.step, 3u);
                  EXPECT_EQ(op_context.random.replica, context.replica);
                },
                {}});
    EXPECT_EQ(current_context().execution_scope, nullptr);
  }
}

TEST(SequentialGroup, RejectsMisuseOfBuckets) {
  for (const std::uint32_t replicas : {1, 2}) {
    const auto group = make_group(replicas);
    const auto value = tensor::full({1}, 1);
    EXPECT_THROW(
      group->run({0, 1, [&](step_context& context) { context.sum(0); }, {}}),
      std::logic_error);
    EXPECT_THROW(group->run({0,
                             1,
                             [&](step_context& context) {
                               context.contribute(0, value);
                               context.contribute(0, value);
                             },
                             {}}),
                 std::logic_error);
    EXPECT_THROW(group->run({0, 1, [&](step_context&) { group->run({}); }, {}}),
                 std::logic_error);
  }
}

TEST(SequentialGroup, RejectsInvalidOptions) {
  EXPECT_THROW(make_sequential_group({.replicas = 0}), std::invalid_argument);
  EXPECT_THROW(make_sequential_group({.threads = 0}), std::invalid_argument);
  EXPECT_THROW(make_sequential_group({.step_timeout = {}}),
               std::invalid_argument);
}

TEST(SequentialGroup, ForEachUsesTheThreadsOfAReplica) {
  std::vector<std::uint32_t> seen;
  for (const std::uint32_t replicas : {1, 2}) {
    use_threads(1);
    const auto group =
      make_sequential_group({.replicas = replicas, .threads = 3});
    group->for_each([&](std::uint32_t r) {
      seen.push_back(r);
      EXPECT_EQ(current_context().copy_index, r);
      EXPECT_EQ(::omp_get_max_threads(), 3);
    });
  }
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{0, 0, 1}));
  use_threads(1);
}
