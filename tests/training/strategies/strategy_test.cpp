#include "troupe/tensors/context.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/strategies/local_strategies.hpp"
#include "troupe/training/strategies/strategy.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace {

using namespace troupe;

tensor scalar(float x) {
  return tensor::of<float>({}, {x});
}

tensor row(std::initializer_list<float> x) {
  return tensor::of<float>({static_cast<std::int64_t>(x.size())}, x);
}

one_device_strategy replicas_in_turn(std::uint32_t replicas) {
  return one_device_strategy{"cpu:0", {.replicas = replicas}};
}

// -- execution scope ----------------------------------------------------------

TEST(Strategy, DefaultStrategyIsCurrentWithoutAScope) {
  EXPECT_FALSE(has_strategy());
  EXPECT_EQ(get_strategy().name(), "default");
  EXPECT_EQ(get_strategy(), default_strategy{});
  ASSERT_NE(get_replica_context(), nullptr);
  EXPECT_EQ(get_replica_context()->replica_id(), 0u);
  EXPECT_EQ(get_replica_context()->num_replicas_in_sync(), 1u);
  EXPECT_FALSE(in_cross_replica_context());
}

TEST(Strategy, ScopeEntersCrossReplicaContext) {
  const auto two = replicas_in_turn(2);
  {
    const auto scope = two.scope();
    EXPECT_TRUE(has_strategy());
    EXPECT_EQ(get_strategy(), two);
    EXPECT_TRUE(in_cross_replica_context());
  }
  EXPECT_FALSE(has_strategy());
  EXPECT_FALSE(in_cross_replica_context());
}

TEST(Strategy, ScopeMayBeReenteredButNotMixed) {
  const auto two = replicas_in_turn(2), other_strategy = replicas_in_turn(2);
  const auto scope = two.scope();
  {
    const auto again = two.scope();
    EXPECT_EQ(get_strategy(), two);
  }
  EXPECT_EQ(get_strategy(), two);
  EXPECT_THROW((void)other_strategy.scope(), std::logic_error);
  EXPECT_THROW((void)default_strategy{}.scope(), std::logic_error);
  EXPECT_EQ(get_strategy(), two);
}

TEST(Strategy, ScopeOfTheDefaultStrategyHasNoEffect) {
  const auto scope = default_strategy{}.scope();
  EXPECT_FALSE(has_strategy());
  EXPECT_FALSE(in_cross_replica_context());
  const auto two = replicas_in_turn(2);
  const auto inner = two.scope();
  EXPECT_EQ(get_strategy(), two);
}

TEST(Strategy, ScopeAppliesToItsThreadOnly) {
  const auto two = replicas_in_turn(2);
  const auto scope = two.scope();
  bool seen = true;
  std::thread{[&] { seen = has_strategy(); }}.join();
  EXPECT_FALSE(seen);
}

TEST(Strategy, RunsEachReplicaInItsOwnReplicaContext) {
  const auto three = replicas_in_turn(3);
  const auto ids = three.run([&](replica_context& self) {
    EXPECT_EQ(get_replica_context(), &self);
    EXPECT_EQ(get_strategy(), three);
    EXPECT_EQ(self.num_replicas_in_sync(), 3u);
    EXPECT_THROW((void)three.scope(), std::logic_error);
    EXPECT_THROW(three.run([] {}), std::logic_error);
    EXPECT_THROW(three.reduce(sum, scalar(1)), std::logic_error);
    return self.replica_id();
  });
  EXPECT_EQ(ids.values(), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_FALSE(has_strategy());
}

TEST(Strategy, ReplicaContextSurvivesAWait) {
  replicas_in_turn(3).run([](replica_context& self) {
    self.all_reduce(sum, scalar(1));
    EXPECT_EQ(get_replica_context(), &self);
    EXPECT_EQ(current_context().copy_index, self.replica_id());
  });
}

// -- run ----------------------------------------------------------------------

TEST(Run, PerReplicaArgumentsAreDividedAndOthersPassedUnchanged) {
  const auto two = replicas_in_turn(2);
  const per_replica<int> parts{{10, 20}};
  const auto out =
    two.run([](int mine, int all) { return mine + all; }, parts, 1);
  EXPECT_EQ(out.values(), (std::vector<int>{11, 21}));
  EXPECT_EQ(two.local_results(out), (std::vector<int>{11, 21}));
  EXPECT_EQ(two.local_results(7), std::vector<int>{7});
}

TEST(Run, AcceptsAndReturnsBooleans) {
  const auto out = replicas_in_turn(2).run([](bool x) { return !x; },
                                           per_replica<bool>{{true, false}});
  EXPECT_FALSE(out[0]);
  EXPECT_TRUE(out[1]);
}

TEST(Run, RunDuringAnotherRunIsRejected) {
  const auto two = replicas_in_turn(2);
  const auto scope = two.scope();
  model it{small_net(), adam{}};
  fit_options options;
  options.callbacks.push_back(
    {.on_step = [&](const step_record&) { two.run([] {}); }});
  EXPECT_THROW(it.fit(digits_200().batch(50), options), std::logic_error);
  two.run([] {});
}

TEST(Run, ValueOfFewerReplicasIsRejected) {
  EXPECT_THROW(replicas_in_turn(2).run([](int) {}, per_replica<int>{{1}}),
               std::logic_error);
}

TEST(Run, ExceptionOfAReplicaIsRethrownAndTheNextRunSucceeds) {
  const auto two = replicas_in_turn(2);
  struct custom_error {};
  EXPECT_THROW(two.run([](replica_context& self) {
    if (self.replica_id() == 1)
      throw custom_error{};
    self.all_reduce(sum, scalar(1));
  }),
               custom_error);
  EXPECT_FALSE(has_strategy());
  EXPECT_EQ(two.run([] { return 1; }).values(), (std::vector<int>{1, 1}));
}

TEST(Run, DifferentNumbersOfCollectivesAreReported) {
  try {
    replicas_in_turn(2).run([](replica_context& self) {
      if (self.replica_id() == 1)
        self.all_reduce(sum, scalar(1));
    });
    FAIL() << "no error";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::stalled) << e.what();
  }
}

TEST(Run, SumsAndGathersOverReplicas) {
  const auto three = replicas_in_turn(3);
  three.run([](replica_context& self) {
    const auto value = static_cast<float>(self.replica_id() + 1);
    EXPECT_EQ(self.all_reduce(sum, scalar(value)).item<float>(), 6.0f);
    EXPECT_EQ(self.all_reduce(mean, scalar(value)).item<float>(), 2.0f);
    const auto whole = tensor::full({}, value, dtype::int64);
    EXPECT_EQ(self.all_reduce(sum, whole).item<std::int64_t>(), 6);
    tensors several;
    several.push_back(scalar(value));
    several.push_back(row({value, 10 * value}));
    const auto sums = self.all_reduce(sum, several);
    EXPECT_EQ(sums[0].item<float>(), 6.0f);
    EXPECT_EQ(sums[1].data<float>()[1], 60.0f);
    // The replicas pass 1, 2 and 3 rows.
    const auto all = self.all_gather(
      tensor::full({std::int64_t{self.replica_id()} + 1}, value));
    EXPECT_TRUE(same_bits(all, row({1, 2, 2, 3, 3, 3})));
  });
}

TEST(Run, MeanDoesNotModifyOtherReplicasValues) {
  replicas_in_turn(2).run([](replica_context& self) {
    const auto total = scalar(3);
    const auto m = self.all_reduce(mean, total);
    const auto s = self.all_reduce(sum, total);
    EXPECT_EQ(m.item<float>(), 3.0f);
    EXPECT_EQ(s.item<float>(), 6.0f);
    EXPECT_EQ(total.item<float>(), 3.0f);
  });
}

TEST(Run, WorksInTheDefaultStrategy) {
  const auto out = default_strategy{}.run(
    [](replica_context& self) { return self.all_reduce(sum, scalar(2)); });
  EXPECT_EQ(out[0].item<float>(), 2.0f);
  EXPECT_EQ(get_replica_context()->all_reduce(mean, scalar(2)).item<float>(),
            2.0f);
  EXPECT_EQ(get_replica_context()->all_gather(row({1, 2})).size(), 2u);
}

// -- reduce -------------------------------------------------------------------

TEST(StrategyReduce, MatchesTensorFlow) {
  const auto two = replicas_in_turn(2);
  const per_replica<tensor> x{{scalar(1), scalar(2)}};
  EXPECT_EQ(two.reduce(mean, x).item<float>(), 1.5f);
  EXPECT_EQ(two.reduce(sum, x).item<float>(), 3.0f);
  EXPECT_EQ(two.reduce(sum, per_replica<double>{{0.5, 2}}), 2.5);
  const per_replica<tensor> uneven{{row({1, 2, 3, 4}), row({5, 9})}};
  EXPECT_EQ(two.reduce(mean, uneven, {0}).item<float>(), 4.0f);
  EXPECT_THROW(two.reduce(sum, uneven), std::logic_error);
  EXPECT_TRUE(same_bits(two.gather(uneven, 0), row({1, 2, 3, 4, 5, 9})));
}

TEST(StrategyReduce, ValueThatIsNotPerReplicaHasAMeanButNoSum) {
  EXPECT_EQ(replicas_in_turn(2).reduce(mean, scalar(4)).item<float>(), 4.0f);
  EXPECT_THROW(replicas_in_turn(2).reduce(sum, scalar(4)), std::logic_error);
  EXPECT_EQ(replicas_in_turn(1).reduce(sum, scalar(4)).item<float>(), 4.0f);
}

TEST(StrategyValues, AreComputedPerReplica) {
  EXPECT_EQ(replicas_in_turn(3)
              .values_from([](std::uint32_t id) { return 10 * id; })
              .values(),
            (std::vector<std::uint32_t>{0, 10, 20}));
}

// -- construction -------------------------------------------------------------

TEST(Strategies, RejectInvalidDevicesAndNumbers) {
  EXPECT_THROW(one_device_strategy{"tpu:0"}, std::invalid_argument);
  EXPECT_THROW((one_device_strategy{"cpu:0", {.replicas = 0}}),
               std::invalid_argument);
  EXPECT_THROW((one_device_strategy{"cpu:0", {.threads = 0}}),
               std::invalid_argument);
}

} // namespace
