#include "troupe/tests/actors/group/actor_stage.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

TEST(ActorGroupFaults, RunThrowsTheTextOfAnExceptionAndCanRunAgain) {
  for (const auto reducing :
       {reduction::replica_threads, reduction::reducer_actors}) {
    group_fixture fixture{options_of(3, reducing)};
    std::atomic<int> unwound = 0, entered = 0;
    const auto text = job_error_of(
      [&] {
        fixture.group->run({0,
                            9,
                            [&](step_context& context) {
                              struct guard {
                                std::atomic<int>& count;
                                ~guard() { ++count; }
                              };
                              const guard g{unwound};
                              ++entered;
                              if (context.replica == 1 && context.step == 2)
                                throw std::out_of_range("the user's error");
                              context.contribute(0, tensor::full({20'000}, 1));
                              context.sum(0);
                            },
                            {}});
      },
      ec::invalid);
    EXPECT_EQ(text, "the user's error");
    EXPECT_EQ(unwound, entered);
    EXPECT_LE(entered, 9); // 3 replicas enter at most 3 steps
    outcome out;
    EXPECT_EQ(fixture.group->run(out.request(2, 2)), 4u);
    EXPECT_EQ(out.commits.back().generation, 2u);
    EXPECT_TRUE(
      same_bits(out.sums.at({0, 2, large}), expected_sum(0, 3, 2, large)));
  }
}

TEST(ActorGroupFaults, NamesTheReplicaThatStallsAStep) {
  for (const auto reducing :
       {reduction::replica_threads, reduction::reducer_actors}) {
    std::promise<void> release;
    auto released = release.get_future().share();
    auto options = options_of(3, reducing);
    options.step_timeout = 500ms;
    group_fixture fixture{options};
    const auto text = job_error_of(
      [&] {
        fixture.group->run({5,
                            3,
                            [released](step_context& context) {
                              if (context.replica == 1 && context.step == 6)
                                released.wait();
                              context.contribute(2, tensor::full({8}, 1));
                              context.sum(2);
                            },
                            {}});
      },
      ec::stalled);
    EXPECT_TRUE(mentions(text, "step 6 stalled for 500 ms")) << text;
    EXPECT_TRUE(mentions(text, "replica 0 waits for the sum of bucket 2"))
      << text;
    EXPECT_TRUE(mentions(text, "still missing replica 1")) << text;
    EXPECT_TRUE(mentions(text, "replica 1 does not answer")) << text;
    EXPECT_TRUE(mentions(text, "replica 1 is still inside")) << text;
    const auto again = job_error_of(
      [&] {
        fixture.group->run({9, 1, [](step_context&) {}, {}});
      },
      ec::stalled);
    EXPECT_TRUE(mentions(again, "replica 1 did not acknowledge")) << again;
    release.set_value();
    outcome out;
    EXPECT_EQ(fixture.group->run(out.request(9, 2)), 11u);
  }
}

TEST(ActorGroupFaults, NamesADeadReplicaAndRunsNoStepWithoutIt) {
  for (const auto reducing :
       {reduction::replica_threads, reduction::reducer_actors}) {
    group_fixture fixture{options_of(3, reducing)};
    std::atomic<int> unwound = 0;
    const auto text = job_error_of(
      [&] {
        fixture.group->run({0, 1'000'000,
                            [&](step_context& context) {
                              struct guard {
                                std::atomic<int>& count;
                                ~guard() { ++count; }
                              };
                              const guard g{unwound};
                              context.contribute(0, tensor::full({8}, 1));
                              if (context.replica != 1 || context.step < 3)
                                context.sum(0);
                              else
                                context.gather(
                                  7, tensor::full({1}, 1)); // waits forever
                            },
                            [&](const commit_record& record) {
                              if (record.step == 2)
                                group_fixture::kill(fixture.replicas[1]);
                            }});
      },
      ec::peer_lost);
    EXPECT_TRUE(mentions(text, "replica 1 was lost in step ")) << text;
    const auto again = job_error_of(
      [&] {
        fixture.group->run({9, 1, [](step_context&) {}, {}});
      },
      ec::peer_lost);
    EXPECT_TRUE(mentions(again, "replica 1 is lost")) << again;
    fixture.group.reset();
    EXPECT_GE(unwound, 9);
  }
}

TEST(ActorGroupFaults, NoReplicaIsInTheStepFunctionAfterTheChiefDied) {
  for (const auto reducing :
       {reduction::replica_threads, reduction::reducer_actors}) {
    group_fixture fixture{options_of(3, reducing)};
    std::atomic<int> inside = 0;
    const auto text = job_error_of(
      [&] {
        fixture.group->run({0, 1'000'000,
                            [&](step_context& context) {
                              struct guard {
                                std::atomic<int>& count;
                                ~guard() { --count; }
                              };
                              ++inside;
                              const guard g{inside};
                              if (context.step < 3)
                                context.gather(0, tensor::full({8}, 1));
                              else if (context.replica != 1)
                                context.gather(
                                  7, tensor::full({1}, 1)); // waits forever
                            },
                            [&](const commit_record& record) {
                              if (record.step == 2)
                                group_fixture::kill(fixture.chief);
                            }});
      },
      ec::cancelled);
    EXPECT_EQ(inside, 0);
    EXPECT_TRUE(
      mentions(text, "the chief of this replica group has terminated"))
      << text;
    EXPECT_FALSE(mentions(text, "inside")) << text;
    const auto again = job_error_of(
      [&] {
        fixture.group->run({9, 1, [](step_context&) {}, {}});
      },
      ec::cancelled);
    EXPECT_TRUE(
      mentions(again, "the chief of this replica group has terminated"))
      << again;
  }
}

TEST(ActorGroupFaults, RunThrowsIfAReducerDies) {
  group_fixture fixture{options_of(2, reduction::reducer_actors)};
  const auto text = job_error_of(
    [&] {
      fixture.group->run({0, 1'000'000,
                          [](step_context& context) {
                            context.contribute(0, tensor::full({8}, 1));
                            context.sum(0);
                          },
                          [&](const commit_record& record) {
                            if (record.step == 2)
                              group_fixture::kill(fixture.reducers[0]);
                          }});
    },
    ec::peer_lost);
  EXPECT_TRUE(mentions(text, "reducer 0 was lost")) << text;
}

TEST(ActorGroupFaults, NamesBothShapesOfContributionsThatDiffer) {
  for (const auto reducing :
       {reduction::replica_threads, reduction::reducer_actors}) {
    group_fixture fixture{options_of(2, reducing)};
    const auto text = job_error_of(
      [&] {
        fixture.group->run({0,
                            1,
                            [](step_context& context) {
                              context.contribute(
                                0, tensor::full({4 + context.replica}, 1));
                              context.sum(0);
                            },
                            {}});
      },
      ec::protocol);
    EXPECT_TRUE(mentions(text, "float32[4]")) << text;
    EXPECT_TRUE(mentions(text, "float32[5]")) << text;
  }
}
