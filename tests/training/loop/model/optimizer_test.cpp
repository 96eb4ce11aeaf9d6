#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/tests/training/strategies/workers.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <type_traits>

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

// `model::optimizer` returns a reference, from which a program could move.
static_assert(!std::is_move_constructible_v<optimizer>);
static_assert(!std::is_move_assignable_v<optimizer>);

TEST(Optimizer, SharedCopyIsUpdatedOncePerStep) {
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

/// A loop that failed in the first step of an optimizer makes this step again.
TEST(Optimizer, ReturnsToTheInitialValuesOfItsSlots) {
  for (const update_rule& rule : {update_rule{sgd{.momentum = 0.9f}},
                                  update_rule{adagrad{}}, update_rule{ftrl{}}})
    test::expect_success_on_workers(
      2, 1, [&](const strategy& on, std::uint32_t) {
        const auto scope = on.scope();
        auto it = test::small_model();
        optimizer own{rule};
        const auto value_after_a_step = [&] {
          on.run([&] {
            own.apply(std::vector{tensor::full(it.variables()[0].dims(), 2)},
                      std::span{it.variables()}.first(1));
          });
          return it.variables()[0].value().detach().clone();
        };
        const auto before = it.variables()[0].value().detach().clone();
        const auto for_each_observer = [&](auto fn) {
          for (const auto& one : on.state()->observers)
            if (const auto observer = one.lock())
              fn(*observer);
        };
        for_each_observer([](auto& x) { x.keep_state(); });
        const auto once = value_after_a_step();
        for_each_observer([](auto& x) { x.restore_state(); });
        EXPECT_TRUE(same_bits(it.variables()[0].value().detach(), before));
        EXPECT_TRUE(same_bits(value_after_a_step(), once)) << rule.name();
      });
}

/// The slots of a model have the values with which the rule begins.
TEST(Optimizer, OfAModelBeginsAsOneOfAProgram) {
  for (const update_rule& rule :
       {update_rule{adagrad{}}, update_rule{ftrl{.learning_rate = 0.1f}}})
    for (const std::uint32_t replicas : {1, 2}) {
      const auto on = turns(replicas);
      const auto scope = on.scope();
      model it{small_net(), rule, {.seed = 5}};
      for (const auto& step : on.distribute(digits_200().batch(40)))
        on.run(
          [&](replica_context& self, const batch& mine) {
            tape t;
            const auto losses =
              models::cross_entropy(it(mine.inputs), mine.labels) / 40;
            it.optimizer().apply(
              self.all_reduce(sum, t.gradient(losses, it.variables())),
              it.variables());
          },
          step);
      EXPECT_EQ(it.weights_sha256(), weights_after_own_loop(on, rule))
        << rule.name() << ", " << replicas << " replicas";
    }
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

/// Makes the steps [begin, end) of a custom loop with the model's optimizer.
/// The loop has an epoch of five batches, and lowers the learning rate at
/// step 4.
void make_steps(model& model, const strategy& over, std::uint64_t begin,
                std::uint64_t end) {
  const auto batches = over.distribute(digits_200().shuffle(200, 7).batch(40));
  for (auto i = begin; i < end; ++i) {
    if (i == 4)
      model.optimizer().set_learning_rate(1e-3f);
    for (const auto& step : batches.iterate({i / 5, i % 5})) {
      over.run(
        [&](replica_context& self, const batch& mine) {
          tape t;
          const auto losses =
            models::cross_entropy(model(mine.inputs), mine.labels)
            / mine.global_rows;
          model.optimizer().apply(
            self.all_reduce(sum, t.gradient(losses, model.variables())),
            model.variables());
        },
        step);
      break;
    }
  }
}

class ModelOptimizer : public scratch_test {
protected:
  runtime actors;
  const std::vector<strategy> strategies{
    turns(2), mirrored_strategy{actors, {"cpu:0", "cpu:1"}}};
  const std::vector<update_rule> rules{sgd{.momentum = 0.9f}, adam{}};
};

TEST_F(ModelOptimizer, SavedLoopEndsWithTheWeightsOfAnUndisturbedOne) {
  for (const auto& rule : rules) {
    SCOPED_TRACE(rule.name());
    std::string expected;
    {
      const auto scope = strategies[0].scope();
      model undisturbed{small_net(), rule, {.seed = 5}};
      make_steps(undisturbed, strategies[0], 0, 9);
      expected = undisturbed.weights_sha256();
    }
    for (const auto& before : strategies)
      for (const auto& after : strategies) {
        SCOPED_TRACE(before.name() + ", then " + after.name());
        {
          const auto scope = before.scope();
          model first{small_net(), rule, {.seed = 5}};
          make_steps(first, before, 0, 6);
          first.save(folder / "half.troupe");
        }
        const auto scope = after.scope();
        auto second = model::load(folder / "half.troupe");
        EXPECT_EQ(second.steps(), 6u);
        EXPECT_EQ(second.optimizer().steps(), 6u);
        EXPECT_EQ(second.optimizer().learning_rate(), 1e-3f);
        make_steps(second, after, second.steps(), 9);
        EXPECT_EQ(second.weights_sha256(), expected);
      }
  }
}

TEST_F(ModelOptimizer, FitAndLoopShareTheStateOfTheRule) {
  for (const auto& over : strategies)
    for (const auto& rule : rules) {
      SCOPED_TRACE(over.name() + ", " + std::string{rule.name()});
      const auto scope = over.scope();
      const auto loop_and_fit = [&] {
        model model{small_net(), rule, {.seed = 5}};
        make_steps(model, over, 0, 2);
        model.fit(digits_200().batch(40), {.epochs = 1});
        make_steps(model, over, 2, 4);
        return model;
      };
      const auto one = loop_and_fit();
      EXPECT_EQ(one.steps(), 9u);
      // A file between the parts of the training changes nothing.
      {
        model other{small_net(), rule, {.seed = 5}};
        make_steps(other, over, 0, 2);
        other.save(folder / "a.troupe");
      }
      auto other = model::load(folder / "a.troupe");
      other.fit(digits_200().batch(40), {.epochs = 1});
      EXPECT_EQ(other.steps(), 7u);
      other.save(folder / "b.troupe");
      other = model::load(folder / "b.troupe");
      make_steps(other, over, 2, 4);
      EXPECT_EQ(other.weights_sha256(), one.weights_sha256());
    }
}

TEST_F(ModelOptimizer, UpdatesOnlyTheVariablesOfItsModel) {
  model own{small_net(), sgd{}}, other{small_net(), sgd{}};
  const std::vector<tensor> gradients{
    tensor::zeros(other.variables()[0].dims())};
  try {
    own.optimizer().apply(gradients, std::span{other.variables()}.first(1));
    FAIL() << "no error";
  } catch (const std::logic_error& e) {
    EXPECT_NE(
      std::string{e.what()}.find("does not belong to the model \"small\""),
      std::string::npos)
      << e.what();
  }
  EXPECT_THROW(own.optimizer().set_learning_rate(-1), std::invalid_argument);
}

} // namespace
