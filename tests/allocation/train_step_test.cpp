#include "troupe/actors/group/replica_group.hpp"
#include "troupe/data/sources/clicks.hpp"
#include "troupe/data/sources/synthetic.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tests/support/malloc_counter.hpp"
#include "troupe/training/loop/exchange/train_step.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

/// Returns by training step how often the replicas' threads call malloc, from
/// the reading of the batch to the end of the update.
std::vector<std::uint64_t>
calls_by_step(const models::model_description& description,
              const update_rule& rule, std::uint32_t replicas,
              const data::dataset& batches, std::string_view loss) {
  const auto state = make_strategy_state(
    make_sequential_group({.replicas = replicas}), "turns", {{}}, 1);
  const auto model = std::make_shared<model_state>(
    description, rule, models::find_loss(loss), 1, state);
  const fit_options options;
  train_step step{model, options};
  step.set_batches(
    std::make_shared<batch_feed>(batches, data::position{}, 0, *state->group));
  std::vector<std::uint64_t> calls(*batches.size());
  run_request x;
  x.steps = calls.size();
  x.step = [&](step_context& at) {
    const testing::malloc_counter counter;
    step(at);
    calls[at.step] += counter.calls();
  };
  state->group->run(x);
  return calls;
}

class TrainStep
  : public ::testing::TestWithParam<std::tuple<std::string, std::uint32_t>> {};

TEST_P(TrainStep, CallsNoMallocAfterTheThird) {
  if (testing::products_call_malloc())
    GTEST_SKIP() << "oneDNN's matrix products call malloc on this processor";
  const auto& [name, replicas] = GetParam();
  for (const update_rule& rule :
       {update_rule{sgd{.momentum = 0.9f}}, update_rule{adam{}}}) {
    const auto model = models::find_model(name);
    const auto calls = calls_by_step(
      model, rule, replicas,
      data::synthetic({.example = model.input, .examples = 24}).batch(4),
      "softmax_cross_entropy");
    EXPECT_GT(calls[0], 0u) << "the counter counts";
    for (std::size_t s = 3; s < calls.size(); ++s)
      EXPECT_EQ(calls[s], 0u) << rule.name() << ", step " << s;
  }
}

/// The rows of a step live until the next one, so the pool has all blocks later
/// than without tables.
TEST(TrainStepWithTables, CallsNoMallocAfterTheSixth) {
  if (testing::products_call_malloc())
    GTEST_SKIP() << "oneDNN's matrix products call malloc on this processor";
  const models::model_description clicks{
    .name = "clicks",
    .input = {13},
    .layers =
      models::stack(models::category_embedding{50, 4}, models::dense{16}),
    .categories = 26};
  auto all = data::clicks({.examples = 4, .rows = 50}).examples(0, 4);
  all.labels = tensor::zeros({4, 16});
  const auto batches = data::dataset::of(all).batch(4).repeat(12);
  for (const std::uint32_t replicas : {1, 2}) {
    const auto calls =
      calls_by_step(clicks, adam{}, replicas, batches, "mean_squared_error");
    EXPECT_GT(calls[0], 0u) << "the counter counts";
    for (std::size_t s = 6; s < calls.size(); ++s)
      EXPECT_EQ(calls[s], 0u) << replicas << " replicas, step " << s;
  }
}

INSTANTIATE_TEST_SUITE_P(ModelsAndReplicas, TrainStep,
                         ::testing::Combine(::testing::Values("mlp", "lenet"),
                                            ::testing::Values(1u, 2u)),
                         [](const auto& x) {
                           return std::get<0>(x.param)
                                  + std::to_string(std::get<1>(x.param));
                         });

} // namespace
} // namespace troupe
