#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <gtest/gtest.h>

#include <latch>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

/// Blocks replicas until it is removed. `seen` is positive after a replica has
/// continued.
struct obstacle {
  std::latch removed{1};
  std::atomic<int> seen = 0;
};

class StuckReplica : public ::testing::Test {
protected:
  /// Removes the obstacle and waits until the replicas have left the step.
  void remove_obstacle() {
    obstacle_->removed.count_down();
    for (int attempt = 0; attempt < 100; ++attempt)
      try {
        EXPECT_EQ(strategy_.run([] { return 7; })[1], 7);
        return;
      } catch (const job_error& e) {
        EXPECT_EQ(e.code, ec::stalled) << e.what();
      }
    ADD_FAILURE() << "the replicas did not leave the step";
  }

  /// Returns batches that no replica can read before the obstacle is removed.
  /// The batches own `token`.
  data::dataset blocked(std::shared_ptr<int> token) const {
    return digits_200()
      .batch(16)
      .map([held = obstacle_, token = std::move(token)](const batch& changed) {
        if (!in_cross_replica_context()) {
          held->removed.wait();
          held->seen += ++*token;
        }
        return changed;
      })
      .prefetch(0);
  }

  /// Calls `fn(model, batches)`, which must time out, and releases all objects
  /// of the caller. Expects that the stuck replicas keep the objects that they
  /// use until they leave the step.
  void
  expect_timeout(const std::function<void(model&, const data::dataset&)>& fn) {
    std::weak_ptr<int> used;
    {
      const auto scope = strategy_.scope();
      model model{small_net(true), adam{}, {.seed = 5}};
      auto token = std::make_shared<int>(0);
      used = token;
      const auto batches = blocked(std::move(token));
      try {
        fn(model, batches);
        ADD_FAILURE() << "no error";
      } catch (const job_error& e) {
        EXPECT_NE(std::string_view{e.what()}.find("still inside"),
                  std::string_view::npos)
          << e.what();
      }
    }
    EXPECT_FALSE(used.expired()) << "the step that goes on uses it";
    remove_obstacle();
    EXPECT_TRUE(used.expired()) << "it is not needed any more";
    EXPECT_GT(obstacle_->seen, 0);
  }

  runtime actors;
  const mirrored_strategy strategy_{
    actors, {"cpu:0", "cpu:1"}, {.step_timeout = 100ms}};
  const std::shared_ptr<obstacle> obstacle_ = std::make_shared<obstacle>();
};

TEST_F(StuckReplica, UsesLiveObjectsAfterFitTimedOut) {
  expect_timeout(
    [](model& it, const data::dataset& batches) { it.fit(batches); });
}

TEST_F(StuckReplica, UsesLiveObjectsAfterEvaluateTimedOut) {
  expect_timeout(
    [](model& it, const data::dataset& batches) { it.evaluate(batches); });
}

TEST_F(StuckReplica, UsesLiveFunctionAndArgumentsAfterRunTimedOut) {
  std::weak_ptr<int> function, argument;
  {
    auto owned = std::make_shared<int>(1), passed = std::make_shared<int>(2);
    function = owned;
    argument = passed;
    EXPECT_THROW(strategy_.run(
                   [held = obstacle_,
                    own = std::move(owned)](const std::shared_ptr<int>& x) {
                     held->removed.wait();
                     held->seen += *own + *x;
                     return std::vector<int>(1000, *x);
                   },
                   std::move(passed)),
                 job_error);
  }
  EXPECT_FALSE(function.expired());
  EXPECT_FALSE(argument.expired());
  remove_obstacle();
  EXPECT_TRUE(function.expired());
  EXPECT_TRUE(argument.expired());
  EXPECT_EQ(obstacle_->seen, 6);
}

TEST_F(StuckReplica, FunctionIsDestroyedWithItsRun) {
  std::weak_ptr<int> used;
  {
    auto own = std::make_shared<int>(1);
    used = own;
    strategy_.run([own = std::move(own), on = strategy_] {
      return *own + int(on.num_replicas_in_sync());
    });
  }
  EXPECT_TRUE(used.expired());
}

TEST(Run, ArgumentThatCannotBeCopiedIsPassedByReference) {
  const auto two = turns(2);
  const auto scope = two.scope();
  const model network{small_net(), adam{}, {.seed = 5}};
  const auto found = two.run(
    [&](const model& x, const std::unique_ptr<int>& moved) {
      EXPECT_EQ(*moved, 3);
      return &x;
    },
    network, std::make_unique<int>(3));
  EXPECT_EQ(found.values(), (std::vector<const model*>{&network, &network}));
}

} // namespace
