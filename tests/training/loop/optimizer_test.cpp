#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/loop/optimizer.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

/// Trains a model for one epoch in a custom loop that makes the steps of `fit`.
/// Returns the hash of the weights.
std::string weights_after_own_loop(const strategy& over,
                                   const update_rule& rule) {
  const auto scope = over.scope();
  model model{small_net(), rule, {.seed = 5}};
  optimizer optimizer{rule};
  for (const auto& step : over.distribute(digits_200().batch(40)))
    over.run(
      [&](replica_context& self, const batch& mine) {
        tape t;
        const auto losses =
          models::cross_entropy(model(mine.inputs), mine.labels) / 40;
        optimizer.apply(
          self.all_reduce(sum, t.gradient(losses, model.variables())),
          model.variables());
      },
      step);
  return model.weights_sha256();
}

TEST(Optimizer, SingleCopyIsUpdatedOncePerStep) {
  // The gradients of two replicas are always added in tree order, so two runs
  // have equal bits.
  for (const update_rule& rule :
       {update_rule{sgd{.momentum = 0.9f}}, update_rule{adam{}}}) {
    const auto one = weights_after_own_loop(turns(2), rule);
    EXPECT_EQ(one, weights_after_own_loop(turns(2), rule));
    // A single replica adds the same gradients in another order.
    EXPECT_NE(one, weights_after_own_loop(turns(1), rule));
  }
}

TEST(Optimizer, StepEqualsThatOfTheRule) {
  parameters params{{{"x", shape{2}}}};
  params.values().mutable_data<float>()[0] = 1;
  params.values().mutable_data<float>()[1] = 2;
  optimizer optimizer{sgd{.learning_rate = 0.5f}};
  const std::vector<tensor> gradients{tensor::of<float>({2}, {4, -2})};
  optimizer.apply(gradients, params.variables());
  EXPECT_EQ(params.values().data<float>()[0], -1.0f);
  EXPECT_EQ(params.values().data<float>()[1], 3.0f);
  optimizer.set_learning_rate(1);
  optimizer.apply(gradients, params.variables());
  EXPECT_EQ(params.values().data<float>()[0], -5.0f);
}

TEST(Optimizer, InvalidArgumentsAreRejected) {
  parameters own{{{"x", shape{2}}}};
  const std::vector<tensor> wrong{tensor{shape{3}}}, none;
  optimizer by{sgd{}};
  EXPECT_THROW(by.apply(wrong, own.variables()), std::logic_error);
  EXPECT_THROW(by.apply(none, own.variables()), std::logic_error);
  const auto two = turns(2);
  EXPECT_THROW(two.run([&] { by.apply(none, {}); }), std::logic_error);
  const auto scope = two.scope();
  optimizer inside{sgd{}};
  EXPECT_THROW(inside.apply(none, {}), std::logic_error);
}

/// Uses a model that was constructed outside the strategy's scope. Returns the
/// errors of two runs: one calls the model, one calls `optimizer::apply`.
std::vector<std::string> errors_of_foreign_model(const strategy& strategy) {
  const auto strange = model{small_net(), sgd{}};
  std::vector<std::string> message;
  const auto keep = [&](auto fn) {
    try {
      strategy.run(fn);
      message.push_back("no error");
    } catch (const std::logic_error& e) {
      message.push_back(e.what());
    }
  };
  keep([&] { (void)strange(digits_200().examples(0, 2).inputs); });
  const auto scope = strategy.scope();
  optimizer optimizer{sgd{}};
  keep([&] {
    tensors gradients;
    for (const auto& x : strange.variables())
      gradients.push_back(tensor::zeros(x.dims()));
    optimizer.apply(gradients, strange.variables());
  });
  return message;
}

TEST(Optimizer, ModelConstructedOutsideTheScopeIsRejected) {
  runtime actors;
  const std::vector<strategy> both{
    turns(2), mirrored_strategy{actors, {"cpu:0", "cpu:1"}}};
  for (const auto& strategy : both) {
    SCOPED_TRACE(strategy.name());
    const auto message = errors_of_foreign_model(strategy);
    EXPECT_NE(
      message[0].find("default strategy was called in a run of another"),
      message[0].npos)
      << message[0];
    EXPECT_NE(message[1].find("was not constructed in the scope of the "
                              + strategy.name()),
              message[1].npos)
      << message[1];
  }
}

} // namespace
