#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/simulation/determinism_check.hpp"
#include "troupe/tests/simulation/tiny_jobs.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <gtest/gtest.h>

// Bugs such as a sum in the order of arrival, a missing generation check or an
// update applied twice must fail here. scripts/planted-bugs.sh checks that.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t steps = 6;

constexpr auto seeds = test::seeds_of(1000);

/// Trains. @returns the variables of each replica, and the step, examples and
/// loss of each commit.
tensors train(crew& on) {
  test::tiny_training training{on.replicas()};
  const auto step = [&](step_context& at) { training.step(at); };
  tensors told;
  const auto commit = [&](const commit_record& x) {
    EXPECT_EQ(x.contributors.size(), on.replicas());
    told.push_back(tensor::of<double>(
      {3}, {double(x.step), double(x.total.examples), x.total.loss_sum}));
  };
  on.run({.steps = steps, .step = step, .on_commit = commit});
  auto all = training.state();
  all.insert(all.end(), told.begin(), told.end());
  return all;
}

/// Trains with `fit`. On one device the replicas share one copy of the
/// parameters, which one of them updates. In the simulator each has its own.
tensors fit(const strategy& with) {
  static const data::dataset examples{
    34, 3, [](std::uint64_t i) {
      random_stream draw{{.seed = 3, .step = i}};
      batch one{tensor{{5}}, tensor::full({}, draw.below(3), dtype::int32)};
      for (auto& x : one.inputs.mutable_data<float>())
        x = draw.uniform(-1, 1);
      return one;
    }};
  static const models::model_description network{
    "tiny",
    {5},
    models::stack(models::dense{6, activation::relu}, models::dropout{0.2f},
                  models::dense{3})};
  const auto scope = with.scope();
  model model{network, adam{.learning_rate = 0.02f}};
  model.fit(examples.shuffle().batch(12), {.epochs = 2, .prefetch = 0});
  return values_on_each(with, model.variables());
}

class ThousandSeeds : public testing::TestWithParam<std::uint32_t> {
protected:
  trials under(const faults& plan = {}) const {
    return {.plan = plan, .seeds = seeds, .crew = {.replicas = GetParam()}};
  }
};

INSTANTIATE_TEST_SUITE_P(Replicas, ThousandSeeds, testing::Values(2u, 3u),
                         testing::PrintToStringParamName{});

TEST_P(ThousandSeeds, GiveTheSameWeights) {
  const auto found = same_bits_of_crew(train, under());
  EXPECT_TRUE(found.same) << found.what;
}

TEST_P(ThousandSeeds, GiveTheSameWeightsToFit) {
  const auto found = same_bits(fit, under(faults{}.duplicate(0.1).delay(0.1)));
  EXPECT_TRUE(found.same) << found.what;
}

TEST_P(ThousandSeeds, GiveTheSameWeightsThoughMessagesComeLateAndTwice) {
  const auto found =
    same_bits_of_crew(train, under(faults{}.duplicate(0.2).delay(0.2, 20ms)));
  EXPECT_TRUE(found.same) << found.what;
  EXPECT_GT(found.fired.duplicates, seeds);
  EXPECT_GT(found.fired.delays, seeds);
}

TEST_P(ThousandSeeds, GiveTheSameWeightsThoughAStepIsBegunAnew) {
  const auto found =
    same_bits_of_crew(test::train_with_second_thoughts,
                      under(faults{}.duplicate(0.2).delay(0.5)));
  EXPECT_TRUE(found.same) << found.what;
}

TEST_P(ThousandSeeds, GiveTheSameRunAgain) {
  auto some = under(faults{}.duplicate(0.2).delay(0.2));
  some.seeds = 20;
  const auto a = same_bits_of_crew(train, some);
  const auto b = same_bits_of_crew(train, some);
  EXPECT_EQ(a.delivered, b.delivered);
  EXPECT_EQ(a.fired.duplicates, b.fired.duplicates);
  EXPECT_EQ(a.fired.delays, b.fired.delays);
  some.first_seed = 21;
  EXPECT_NE(same_bits_of_crew(train, some).delivered, a.delivered);
}

/// A few runs on threads, whose order no seed determines.
TEST_P(ThousandSeeds, GiveTheWeightsThatTheRealRuntimeGives) {
  using how = crew_options::reducers;
  crew_options options{.replicas = GetParam()};
  const auto expected = train(*make_inline_crew(options));
  runtime actors;
  for (const auto reducing : {how::hosted, how::own})
    for (int i = 0; i < 10; ++i) {
      options.reducing = reducing;
      EXPECT_EQ(difference(train(*make_crew(actors, options)), expected), "");
    }
}

TEST_P(ThousandSeeds, GiveTheWeightsThatFitGivesOnThreads) {
  const auto replicas = GetParam();
  const auto expected =
    fit(one_device_strategy{"cpu:0", {.replicas = replicas}});
  runtime actors;
  std::vector<std::string> devices;
  for (std::uint32_t r = 0; r < replicas; ++r)
    devices.push_back("cpu:" + std::to_string(r));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(difference(fit(mirrored_strategy{actors, devices}), expected),
              "");
}

} // namespace
} // namespace troupe::simulation
