#include "troupe/tests/actors/group/actor_stage.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

TEST(ActorGroupFaults, RunThrowsTheTextOfAnExceptionAndCanRunAgain) {
  for (const auto reducing : {how::hosted, how::own}) {
    stage on{options_of(3, reducing)};
    std::atomic<int> unwound = 0, entered = 0;
    const auto text = failure_of(
      [&] {
        on.it->run({0,
                    9,
                    [&](step_context& at) {
                      struct guard {
                        std::atomic<int>& count;
                        ~guard() { ++count; }
                      };
                      const guard g{unwound};
                      ++entered;
                      if (at.replica == 1 && at.step == 2)
                        throw std::out_of_range("the user's error");
                      at.contribute(0, tensor::full({20'000}, 1));
                      at.sum(0);
                    },
                    {}});
      },
      ec::invalid);
    EXPECT_EQ(text, "the user's error");
    EXPECT_EQ(unwound, entered);
    EXPECT_LE(entered, 9); // two full steps, and no replica finished the third
    outcome out;
    EXPECT_EQ(on.it->run(out.job(2, 2)), 4u);
    EXPECT_EQ(out.commits.back().epoch, 2u);
    EXPECT_TRUE(same_bits(out.sums.at({0, 2, large}), tree(0, 3, 2, large)));
  }
}

TEST(ActorGroupFaults, NamesTheReplicaThatStallsAStep) {
  for (const auto reducing : {how::hosted, how::own}) {
    std::promise<void> release;
    auto released = release.get_future().share();
    auto options = options_of(3, reducing);
    options.patience = 100ms;
    stage on{options};
    const auto text = failure_of(
      [&] {
        on.it->run({5,
                    3,
                    [released](step_context& at) {
                      if (at.replica == 1 && at.step == 6)
                        released.wait();
                      at.contribute(2, tensor::full({8}, 1));
                      at.sum(2);
                    },
                    {}});
      },
      ec::stalled);
    EXPECT_TRUE(mentions(text, "step 6 stalled for 100 ms")) << text;
    EXPECT_TRUE(mentions(text, "replica 0 waits for the sum of bucket 2"))
      << text;
    EXPECT_TRUE(mentions(text, "still missing replica 1")) << text;
    EXPECT_TRUE(mentions(text, "replica 1 does not answer")) << text;
    EXPECT_TRUE(mentions(text, "replica 1 is still inside")) << text;
    const auto again = failure_of(
      [&] {
        on.it->run({9, 1, [](step_context&) {}, {}});
      },
      ec::stalled);
    EXPECT_TRUE(mentions(again, "replica 1 did not acknowledge")) << again;
    release.set_value();
    outcome out;
    EXPECT_EQ(on.it->run(out.job(9, 2)), 11u);
  }
}

TEST(ActorGroupFaults, NamesADeadReplicaAndRunsNoStepWithoutIt) {
  for (const auto reducing : {how::hosted, how::own}) {
    stage on{options_of(3, reducing)};
    std::atomic<int> unwound = 0;
    const auto text = failure_of(
      [&] {
        on.it->run({0, 1'000'000,
                    [&](step_context& at) {
                      struct guard {
                        std::atomic<int>& count;
                        ~guard() { ++count; }
                      };
                      const guard g{unwound};
                      at.contribute(0, tensor::full({8}, 1));
                      if (at.replica != 1 || at.step < 3)
                        at.sum(0);
                      else
                        at.gather(7, tensor::full({1}, 1)); // waits forever
                    },
                    [&](const commit_record& x) {
                      if (x.step == 2)
                        stage::kill(on.replicas[1]);
                    }});
      },
      ec::peer_lost);
    EXPECT_TRUE(mentions(text, "replica 1 was lost in step ")) << text;
    const auto again = failure_of(
      [&] {
        on.it->run({9, 1, [](step_context&) {}, {}});
      },
      ec::peer_lost);
    EXPECT_TRUE(mentions(again, "replica 1 is lost")) << again;
    on.it.reset();
    EXPECT_GE(unwound, 9);
  }
}

TEST(ActorGroupFaults, NoReplicaIsInTheStepFunctionAfterTheChiefDied) {
  for (const auto reducing : {how::hosted, how::own}) {
    stage on{options_of(3, reducing)};
    std::atomic<int> inside = 0;
    const auto text = failure_of(
      [&] {
        on.it->run({0, 1'000'000,
                    [&](step_context& at) {
                      struct guard {
                        std::atomic<int>& count;
                        ~guard() { --count; }
                      };
                      ++inside;
                      const guard g{inside};
                      if (at.step < 3 || at.replica == 1)
                        at.gather(0, tensor::full({8}, 1));
                      else
                        at.gather(7, tensor::full({1}, 1)); // waits forever
                    },
                    [&](const commit_record& x) {
                      if (x.step == 2)
                        stage::kill(on.chief);
                    }});
      },
      ec::cancelled);
    EXPECT_EQ(inside, 0);
    EXPECT_TRUE(
      mentions(text, "the chief of this replica group has terminated"))
      << text;
    EXPECT_FALSE(mentions(text, "inside")) << text;
    const auto again = failure_of(
      [&] {
        on.it->run({9, 1, [](step_context&) {}, {}});
      },
      ec::cancelled);
    EXPECT_TRUE(
      mentions(again, "the chief of this replica group has terminated"))
      << again;
  }
}

TEST(ActorGroupFaults, RunThrowsIfAReducerDies) {
  stage on{options_of(2, how::own)};
  const auto text = failure_of(
    [&] {
      on.it->run({0, 1'000'000,
                  [](step_context& at) {
                    at.contribute(0, tensor::full({8}, 1));
                    at.sum(0);
                  },
                  [&](const commit_record& x) {
                    if (x.step == 2)
                      stage::kill(on.reducers[0]);
                  }});
    },
    ec::peer_lost);
  EXPECT_TRUE(mentions(text, "reducer 0 was lost")) << text;
}

TEST(ActorGroupFaults, NamesBothShapesOfContributionsThatDiffer) {
  for (const auto reducing : {how::hosted, how::own}) {
    stage on{options_of(2, reducing)};
    const auto text = failure_of(
      [&] {
        on.it->run({0,
                    1,
                    [](step_context& at) {
                      at.contribute(0, tensor::full({4 + at.replica}, 1));
                      at.sum(0);
                    },
                    {}});
      },
      ec::protocol);
    EXPECT_TRUE(mentions(text, "float32[4]")) << text;
    EXPECT_TRUE(mentions(text, "float32[5]")) << text;
  }
}
