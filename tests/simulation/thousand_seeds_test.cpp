#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/simulation/determinism_check.hpp"
#include "troupe/tests/simulation/tiny_jobs.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <gtest/gtest.h>

// These tests must fail for bugs such as a sum in the order of arrival, a
// missing generation check or an update that is applied twice.
// scripts/planted-bugs.sh checks that they fail.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t many_steps = 6;

const auto many_seeds = test::seeds_of(1000);

/// Trains a network. @returns the variables of each replica, and the step,
/// examples and loss of each commit.
tensors train(replica_group& group) {
  test::tiny_training training{group.replicas()};
  const auto step = [&](step_context& at) { training.step(at); };
  tensors commits;
  const auto commit = [&](const commit_record& x) {
    EXPECT_EQ(x.contributors.size(), group.replicas());
    commits.push_back(tensor::of<double>(
      {3}, {double(x.step), double(x.total.examples), x.total.sums.at(0)}));
  };
  group.run({.steps = many_steps, .step = step, .on_commit = commit});
  auto all = training.state();
  all.insert(all.end(), commits.begin(), commits.end());
  return all;
}

/// Trains with `fit`. The replicas share one copy of the parameters. In several
/// simulated processes, each replica has its own copy.
tensors fit(const strategy& job_strategy) {
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
  const auto scope = job_strategy.scope();
  model model{network, adam{.learning_rate = 0.02f}};
  model.fit(examples.shuffle().batch(12), {.epochs = 2, .prefetch = 0});
  return values_on_each(job_strategy, model.variables());
}

class ThousandSeeds : public ::testing::TestWithParam<std::uint32_t> {
protected:
  trial_options under(const faults& plan = {}) const {
    return {
      .plan = plan, .seeds = many_seeds, .group = {.replicas = GetParam()}};
  }
};

INSTANTIATE_TEST_SUITE_P(Replicas, ThousandSeeds, ::testing::Values(2u, 3u),
                         testing::PrintToStringParamName{});

TEST_P(ThousandSeeds, GiveTheSameWeights) {
  const auto found = same_bits_of_group(train, under());
  EXPECT_TRUE(found.same) << found.message;
}

TEST_P(ThousandSeeds, GiveTheSameWeightsToFit) {
  const auto found = same_bits(fit, under(faults{}.duplicate(0.1).delay(0.1)));
  EXPECT_TRUE(found.same) << found.message;
}

TEST_P(ThousandSeeds, GiveTheSameWeightsThoughMessagesComeLateAndTwice) {
  const auto found =
    same_bits_of_group(train, under(faults{}.duplicate(0.2).delay(0.2, 20ms)));
  EXPECT_TRUE(found.same) << found.message;
  EXPECT_GT(found.fired.duplicates, many_seeds);
  EXPECT_GT(found.fired.delays, many_seeds);
}

TEST_P(ThousandSeeds, GiveTheSameWeightsThoughAStepIsBegunAnew) {
  const auto found = same_bits_of_group(
    test::train_with_redone_steps, under(faults{}.duplicate(0.2).delay(0.5)));
  EXPECT_TRUE(found.same) << found.message;
}

TEST_P(ThousandSeeds, GiveTheSameRunAgain) {
  auto trials = under(faults{}.duplicate(0.2).delay(0.2));
  trials.seeds = 20;
  const auto a = same_bits_of_group(train, trials);
  const auto b = same_bits_of_group(train, trials);
  EXPECT_EQ(a.delivered, b.delivered);
  EXPECT_EQ(a.fired.duplicates, b.fired.duplicates);
  EXPECT_EQ(a.fired.delays, b.fired.delays);
  trials.first_seed = 21;
  EXPECT_NE(same_bits_of_group(train, trials).delivered, a.delivered);
}

/// A few runs on real threads, where no seed determines the order of messages,
/// give the same weights too.
TEST_P(ThousandSeeds, GiveTheWeightsThatTheRealRuntimeGives) {
  using reducers = replica_group_options::reducer_kind;
  replica_group_options options{.replicas = GetParam()};
  const auto expected = train(*make_sequential_group(options));
  runtime local_runtime;
  for (const auto reducing :
       {reducers::replica_threads, reducers::reducer_actors})
    for (int i = 0; i < 10; ++i) {
      options.reducers = reducing;
      EXPECT_EQ(difference(train(*make_replica_group(local_runtime, options)),
                           expected),
                "");
    }
}

TEST_P(ThousandSeeds, GiveTheWeightsThatFitGivesOnThreads) {
  const auto replicas = GetParam();
  const auto expected =
    fit(one_device_strategy{"cpu:0", {.replicas = replicas}});
  runtime local_runtime;
  std::vector<std::string> devices;
  for (std::uint32_t r = 0; r < replicas; ++r)
    devices.push_back("cpu:" + std::to_string(r));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(
      difference(fit(mirrored_strategy{local_runtime, devices}), expected), "");
}

} // namespace
} // namespace troupe::simulation
