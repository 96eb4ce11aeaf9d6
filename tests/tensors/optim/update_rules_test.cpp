#include "troupe/tensors/optim/update_rules.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using troupe::adagrad;
using troupe::adam;
using troupe::adamw;
using troupe::ftrl;
using troupe::hyperparameters;
using troupe::sgd;
using troupe::update_rule;

/// A parameter `x` that a rule trains, with the slots of the rule.
struct trained {
  update_rule rule;
  std::vector<float> x;
  std::vector<std::vector<float>> slots;
  std::uint64_t step = 0;

  trained(const update_rule& rule, std::vector<float> x)
    : rule{rule}, x{std::move(x)} {
    for (std::size_t s = 0; s < rule.slots(); ++s)
      slots.emplace_back(this->x.size(), rule.initial_slot_value(s));
  }

  void apply(const std::vector<float>& g, float scale = 1) {
    ++step;
    apply_range(g, 0, x.size(), scale);
  }

  void apply_range(const std::vector<float>& g, std::size_t begin,
                   std::size_t end, float scale = 1) {
    std::vector<std::span<float>> parts;
    for (auto& slot : slots)
      parts.push_back(std::span{slot}.subspan(begin, end - begin));
    rule.apply(std::span{x}.subspan(begin, end - begin),
               std::span{g}.subspan(begin, end - begin), parts, step,
               rule.learning_rate(), scale);
  }
};

std::vector<float> noise(std::size_t n, unsigned seed) {
  std::mt19937 rng{seed};
  std::vector<float> out(n);
  for (auto& x : out)
    x = static_cast<float>(rng() % 2001) / 1000 - 1;
  return out;
}

const update_rule rules[] = {
  sgd{.learning_rate = 0.1f},
  sgd{.learning_rate = 0.1f, .momentum = 0.9f},
  sgd{.learning_rate = 0.1f, .momentum = 0.9f, .nesterov = true},
  adam{},
  adam{.learning_rate = 0.1f, .beta1 = 0, .beta2 = 0.5f, .epsilon = 1},
  adamw{.learning_rate = 0.05f, .weight_decay = 0.1f},
  adagrad{},
  adagrad{.learning_rate = 0.1f, .initial_accumulator_value = 0, .epsilon = 1},
  ftrl{.learning_rate = 0.1f},
  ftrl{.learning_rate = 0.2f,
       .initial_accumulator_value = 0.5f,
       .l1_regularization_strength = 0.3f,
       .l2_regularization_strength = 0.2f,
       .l2_shrinkage_regularization_strength = 0.1f,
       .beta = 0.7f},
};

/// Updates one element `x` by the definition of a rule, in float64. `g` is the
/// gradient of the element, `s` are the slots of the element, and `t` is the
/// number of the step.
void reference(const update_rule& rule, double& x, double g, double* s, int t) {
  const auto numbers = rule.numbers();
  const auto number = [&](std::string_view name) {
    for (const auto& one : numbers)
      if (one.name == name)
        return one.value;
    return 0.0;
  };
  const auto rate = number("learning_rate"), momentum = number("momentum"),
             beta1 = number("beta1"), beta2 = number("beta2"),
             epsilon = number("epsilon");
  if (rule.name() == "sgd") {
    s[0] = momentum * s[0] + g;
    x -= rate * (number("nesterov") == 1 ? g + momentum * s[0] : s[0]);
    return;
  }
  if (rule.name() == "adagrad") {
    s[0] += g * g;
    x -= rate * g / std::sqrt(s[0] + epsilon);
    return;
  }
  if (rule.name() == "ftrl") {
    const auto l1 = number("l1_regularization_strength"),
               l2 = number("l2_regularization_strength"),
               shrinkage = number("l2_shrinkage_regularization_strength");
    const auto sigma = (std::sqrt(s[0] + g * g) - std::sqrt(s[0])) / rate;
    s[0] += g * g;
    s[1] += g + 2 * shrinkage * x - sigma * x;
    x = std::abs(s[1]) <= l1
          ? 0
          : (std::copysign(l1, s[1]) - s[1])
              / ((number("beta") + std::sqrt(s[0])) / rate + 2 * l2);
    return;
  }
  x *= 1 - rate * number("weight_decay");
  s[0] = beta1 * s[0] + (1 - beta1) * g;
  s[1] = beta2 * s[1] + (1 - beta2) * g * g;
  const auto mean = s[0] / (1 - std::pow(beta1, t));
  const auto square = s[1] / (1 - std::pow(beta2, t));
  x -= rate * mean / (std::sqrt(square) + epsilon);
}

TEST(UpdateRules, MatchTheirFloat64DefinitionForTwentySteps) {
  constexpr std::size_t n = 37;
  for (const auto& rule : rules) {
    trained tested{rule, noise(n, 1)};
    std::vector<double> x(tested.x.begin(), tested.x.end()), s(2 * n);
    for (std::size_t i = 0; i < 2 * n; ++i)
      s[i] = static_cast<double>(rule.initial_slot_value(i % 2));
    for (int t = 1; t <= 20; ++t) {
      const auto g = noise(n, 100 + static_cast<unsigned>(t));
      tested.apply(g);
      for (std::size_t i = 0; i < n; ++i)
        reference(rule, x[i], static_cast<double>(g[i]), &s[2 * i], t);
    }
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_NEAR(tested.x[i], x[i], 4e-6) << rule.name() << ' ' << i;
  }
}

TEST(UpdateRules, HaveTheValuesOfTheirClosedForms) {
  trained plain{sgd{.learning_rate = 0.5f}, {1}};
  plain.apply({2});
  EXPECT_EQ(plain.x[0], 0); // 1 - 0.5 * 2

  trained heavy{sgd{.learning_rate = 0.5f, .momentum = 0.5f}, {0}};
  heavy.apply({1}); // v = 1
  EXPECT_EQ(heavy.x[0], -0.5f);
  heavy.apply({1}); // v = 1.5
  EXPECT_EQ(heavy.x[0], -1.25f);

  trained ahead{sgd{.learning_rate = 0.5f, .momentum = 0.5f, .nesterov = true},
                {0}};
  ahead.apply({1}); // v = 1, x -= 0.5 * (1 + 0.5 * 1)
  EXPECT_EQ(ahead.x[0], -0.75f);
  ahead.apply({1}); // v = 1.5, x -= 0.5 * (1 + 0.5 * 1.5)
  EXPECT_EQ(ahead.x[0], -1.625f);

  // A constant gradient moves Adam by learning_rate * g / (|g| + epsilon) in
  // every step, because the bias corrections cancel.
  trained steady{adam{.learning_rate = 0.25f, .epsilon = 1}, {0, 0}};
  for (int t = 1; t <= 5; ++t) {
    steady.apply({3, -1});
    EXPECT_NEAR(steady.x[0], -0.25 * 0.75 * t, 1e-6 * t);
    EXPECT_NEAR(steady.x[1], 0.25 * 0.5 * t, 1e-6 * t);
  }

  trained decays{adamw{.learning_rate = 0.5f, .weight_decay = 0.5f}, {1, -8}};
  decays.apply({0, 0});
  EXPECT_EQ(decays.x, (std::vector<float>{0.75f, -6}));

  trained slower{adagrad{.learning_rate = 0.5f, .initial_accumulator_value = 7},
                 {1}};
  slower.apply({3}); // n = 16, and epsilon is below the precision of n
  EXPECT_EQ(slower.x[0], 1 - 0.5f * 3 / 4);
}

TEST(UpdateRules, FtrlHasTheValuesOfItsClosedForm) {
  // n = 9 + 4^2. The roots of n are 3 and 5.
  const auto after_one_step = [](ftrl rule, float x) {
    rule.learning_rate = 0.5f;
    rule.initial_accumulator_value = 9;
    trained one{rule, {x}};
    one.apply({4});
    return one.x[0];
  };
  EXPECT_EQ(after_one_step({}, 2), 0.4f); // z = 4 - 2 / 0.5 * 2
  EXPECT_EQ(after_one_step({.l1_regularization_strength = 1}, 2), 0.3f);
  EXPECT_EQ(after_one_step({.l1_regularization_strength = 1}, 0), -0.3f);
  EXPECT_EQ(after_one_step({.l1_regularization_strength = 4}, 2), 0);
  EXPECT_EQ(after_one_step({.l2_regularization_strength = 3}, 2), 0.25f);
  EXPECT_EQ(after_one_step({.beta = 3}, 2), 0.25f);
  // z = 4 + 2 * 0.25 * 2 - 8
  EXPECT_EQ(after_one_step({.l2_shrinkage_regularization_strength = 0.25f}, 2),
            0.3f);
}

TEST(UpdateRules, FtrlComputesAnElementFromItsSlots) {
  trained it{ftrl{.learning_rate = 0.1f}, {3, 3}};
  it.apply({0, 1});
  EXPECT_EQ(it.x[0], 0);
  EXPECT_NE(it.x[1], 0);
}

TEST(UpdateRules, FtrlChangesNothingWithLearningRate0) {
  trained it{ftrl{.learning_rate = 0.1f}, {3, -1}};
  it.apply({2, 1});
  const auto before = it;
  it.rule.set_learning_rate(0);
  it.apply({1, 5});
  EXPECT_EQ(it.x, before.x);
  EXPECT_EQ(it.slots, before.slots);
  const update_rule constructed{ftrl{.learning_rate = 0}};
  EXPECT_EQ(constructed.learning_rate(), 0);
}

TEST(UpdateRules, ARangeHasTheBitsOfTheWhole) {
  constexpr std::size_t n = 101;
  for (const auto& rule : rules) {
    trained whole{rule, noise(n, 2)}, ranges{rule, noise(n, 2)};
    for (unsigned t = 1; t <= 3; ++t) {
      const auto g = noise(n, t);
      whole.apply(g, 0.3f);
      ++ranges.step;
      for (std::size_t begin = 0, end; begin < n; begin = end) {
        end = std::min<std::size_t>(n, begin + 1 + 7 * t);
        ranges.apply_range(g, begin, end, 0.3f);
      }
    }
    EXPECT_EQ(whole.x, ranges.x) << rule.name();
    EXPECT_EQ(whole.slots, ranges.slots) << rule.name();
  }
}

TEST(UpdateRules, ScaleTheGradientAsIfItHadBeenScaledBefore) {
  for (const auto& rule : rules) {
    trained scaled{rule, noise(9, 3)}, before{rule, noise(9, 3)};
    auto g = noise(9, 4);
    scaled.apply(g, 1.0f / 64);
    for (auto& each : g)
      each *= 1.0f / 64;
    before.apply(g);
    EXPECT_EQ(scaled.x, before.x) << rule.name();
  }
}

TEST(UpdateRules, KeepZeroGapsZero) {
  for (const auto& rule : rules) {
    trained it{rule, {0, -0.0f}};
    for (int t = 0; t < 3; ++t)
      it.apply({0, 0});
    EXPECT_EQ(it.x, (std::vector<float>{0, 0})) << rule.name();
  }
}

TEST(UpdateRules, AdamWWithoutDecayIsAdamToTheBit) {
  trained a{adam{}, noise(20, 5)}, b{adamw{.weight_decay = 0}, noise(20, 5)};
  for (unsigned t = 0; t < 5; ++t) {
    a.apply(noise(20, t));
    b.apply(noise(20, t));
  }
  EXPECT_EQ(a.x, b.x);
}

TEST(UpdateRules, StillStepAfterAMillionSteps) {
  trained it{adam{.learning_rate = 0.5f}, {0}};
  it.step = 1'000'000;
  // The slots were 0, so this step sets them to m = 0.1 and v = 0.001. The bias
  // corrections 1 - beta^t are 1 after a million steps.
  it.apply({1});
  EXPECT_NEAR(it.x[0], -0.5 * 0.1 / std::sqrt(0.001), 1e-5);
}

TEST(UpdateRules, HaveTheirNameAndHyperparameters) {
  for (const auto& rule : rules) {
    const update_rule again{rule.name(), rule.numbers()};
    EXPECT_EQ(again.numbers(), rule.numbers());
    EXPECT_EQ(again.slots(), rule.slots());
  }
  const hyperparameters expected{{"learning_rate", 0.001},
                                 {"beta1", 0.9},
                                 {"beta2", 0.999},
                                 {"epsilon", 1e-8}};
  EXPECT_EQ(update_rule{"adam"}.numbers(), expected);
  const hyperparameters of_ftrl{{"learning_rate", 0.001},
                                {"initial_accumulator_value", 0.1},
                                {"l1_regularization_strength", 0},
                                {"l2_regularization_strength", 0},
                                {"l2_shrinkage_regularization_strength", 0},
                                {"beta", 0}};
  EXPECT_EQ(update_rule{"ftrl"}.numbers(), of_ftrl);
  const hyperparameters of_adagrad{{"learning_rate", 0.001},
                                   {"initial_accumulator_value", 0.1},
                                   {"epsilon", 1e-7}};
  EXPECT_EQ(update_rule{"adagrad"}.numbers(), of_adagrad);
}

TEST(UpdateRules, HaveTheSlotsOfTheirFormula) {
  EXPECT_EQ(update_rule{sgd{}}.slots(), 0u);
  EXPECT_EQ(update_rule{sgd{.momentum = 0.5f}}.slots(), 1u);
  EXPECT_EQ(update_rule{adam{}}.slots(), 2u);
  EXPECT_EQ(update_rule{adagrad{}}.slots(), 1u);
  EXPECT_EQ(update_rule{ftrl{}}.slots(), 2u);
}

TEST(UpdateRules, BeginOnlyTheSumsOfSquaresWithAValue) {
  const update_rule sums{adagrad{.initial_accumulator_value = 0.25f}},
    both{ftrl{.initial_accumulator_value = 0.5f}}, means{adam{}};
  EXPECT_EQ(sums.initial_slot_value(0), 0.25f);
  EXPECT_EQ(both.initial_slot_value(0), 0.5f);
  EXPECT_EQ(both.initial_slot_value(1), 0);
  EXPECT_EQ(means.initial_slot_value(0), 0);
  EXPECT_EQ(means.initial_slot_value(1), 0);
}

TEST(UpdateRules, ReportInvalidHyperparametersInOneSentence) {
  const auto refusal = [](const std::function<update_rule()>& make) {
    try {
      make();
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
    return std::string{"no error"};
  };
  EXPECT_EQ(refusal([] { return update_rule{"rmsprop"}; }),
            "the optimizer 'rmsprop' is unknown; there are sgd, adam, adamw, "
            "adagrad, ftrl");
  EXPECT_EQ(
    refusal([] { return update_rule{ftrl{.initial_accumulator_value = 0}}; }),
    "ftrl: initial_accumulator_value is 0; it must be above 0");
  EXPECT_EQ(refusal([] {
              return update_rule{adagrad{.initial_accumulator_value = -1}};
            }),
            "adagrad: initial_accumulator_value is -1; it must be at least 0");
  EXPECT_EQ(refusal([] { return update_rule{ftrl{.beta = -0.5f}}; }),
            "ftrl: beta is -0.5; it must be at least 0");
  EXPECT_EQ(refusal([] {
              const hyperparameters numbers{{"momentum", 0.9}};
              return update_rule{"adam", numbers};
            }),
            "adam has no 'momentum'; it has learning_rate, beta1, beta2, "
            "epsilon");
  EXPECT_EQ(refusal([] { return update_rule{adam{.beta1 = 1}}; }),
            "adam: beta1 is 1; it must be at least 0 and below 1");
  EXPECT_EQ(refusal([] { return update_rule{sgd{.learning_rate = -0.1f}}; }),
            "sgd: learning_rate is -0.1; it must be at least 0");
  EXPECT_EQ(refusal([] { return update_rule{sgd{.nesterov = true}}; }),
            "sgd: momentum is 0; it must be above 0 with nesterov");
  EXPECT_EQ(refusal([] { return update_rule{adamw{.epsilon = 0}}; }),
            "adamw: epsilon is 0; it must be above 0");
  EXPECT_EQ(refusal([] {
              const hyperparameters numbers{{"nesterov", 2}};
              return update_rule{"sgd", numbers};
            }),
            "sgd: nesterov is 2; it must be true or false");
}

TEST(UpdateRules, RejectRangesThatDoNotFit) {
  std::vector<float> x(3), short_one(2), m(3), v(3);
  const update_rule rule{adam{}};
  const std::span<float> slots[] = {m, v}, bad_slots[] = {m, short_one};
  const auto apply = [&](std::span<const float> g,
                         std::span<const std::span<float>> s, int step) {
    rule.apply(x, g, s, static_cast<std::uint64_t>(step), 0.1f);
  };
  EXPECT_NO_THROW(apply(x, slots, 1));
  EXPECT_THROW(apply(short_one, slots, 1), std::logic_error);
  EXPECT_THROW(apply(x, bad_slots, 1), std::logic_error);
  EXPECT_THROW(apply(x, {slots, 1}, 1), std::logic_error);
  EXPECT_THROW(apply(x, slots, 0), std::logic_error);
}

} // namespace
