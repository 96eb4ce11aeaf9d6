#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/loop/optimizer.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

/// Runs a custom loop over one epoch of the digits, equivalent to fit.
std::string weights_after_own_loop(const strategy& over,
                                   const update_rule& rule) {
  const auto scope = over.scope();
  model it{small_net(), rule, {.seed = 5}};
  optimizer by{rule};
  for (const auto& step : over.distribute(digits_200().batch(40)))
    over.run(
      [&](replica_context& self, const batch& mine) {
        tape t;
        const auto losses =
          models::cross_entropy(it(mine.inputs), mine.labels) / 40;
        by.apply(self.all_reduce(sum, t.gradient(losses, it.variables())),
                 it.variables());
      },
      step);
  return it.weights_sha256();
}

TEST(Optimizer, SingleCopyIsUpdatedOncePerStep) {
  // In tree order the sums of two replicas are bitwise equal to those of two
  // halves.
  for (const update_rule& rule :
       {update_rule{sgd{.momentum = 0.9f}}, update_rule{adam{}}}) {
    const auto one = weights_after_own_loop(turns(2), rule);
    EXPECT_EQ(one, weights_after_own_loop(turns(2), rule));
    // Another order of the sum.
    EXPECT_NE(one, weights_after_own_loop(turns(1), rule));
  }
}

TEST(Optimizer, StepEqualsThatOfTheRule) {
  parameters own{{{"x", shape{2}}}};
  own.values().mutable_data<float>()[0] = 1;
  own.values().mutable_data<float>()[1] = 2;
  optimizer by{sgd{.learning_rate = 0.5f}};
  const std::vector<tensor> gradients{tensor::of<float>({2}, {4, -2})};
  by.apply(gradients, own.variables());
  EXPECT_EQ(own.values().data<float>()[0], -1.0f);
  EXPECT_EQ(own.values().data<float>()[1], 3.0f);
  by.set_learning_rate(1);
  by.apply(gradients, own.variables());
  EXPECT_EQ(own.values().data<float>()[0], -5.0f);
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

/// Returns the errors of a run with a model that was constructed outside the
/// scope.
std::vector<std::string> words_for_a_strange_model(const strategy& on) {
  const auto strange = model{small_net(), sgd{}};
  std::vector<std::string> said;
  const auto keep = [&](auto fn) {
    try {
      on.run(fn);
      said.push_back("no error");
    } catch (const std::logic_error& e) {
      said.push_back(e.what());
    }
  };
  keep([&] { (void)strange(digits_200().examples(0, 2).inputs); });
  const auto scope = on.scope();
  optimizer by{sgd{}};
  keep([&] {
    tensors gradients;
    for (const auto& x : strange.variables())
      gradients.push_back(tensor::zeros(x.dims()));
    by.apply(gradients, strange.variables());
  });
  return said;
}

TEST(Optimizer, ModelConstructedOutsideTheScopeIsRejected) {
  runtime actors;
  const std::vector<strategy> both{
    turns(2), mirrored_strategy{actors, {"cpu:0", "cpu:1"}}};
  for (const auto& on : both) {
    SCOPED_TRACE(on.name());
    const auto said = words_for_a_strange_model(on);
    EXPECT_NE(said[0].find("default strategy was called in a run of another"),
              said[0].npos)
      << said[0];
    EXPECT_NE(
      said[1].find("was not constructed in the scope of the " + on.name()),
      said[1].npos)
      << said[1];
  }
}

} // namespace
