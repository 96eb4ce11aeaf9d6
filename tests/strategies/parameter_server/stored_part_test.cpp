#include "troupe/strategies/parameter_server/stored_part.hpp"
#include "troupe/tests/strategies/parameter_server/floats.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::parameter_server {
namespace {

using kind = part_change::kind;

TEST(StoredPart, ChangesAllElements) {
  stored_part part{floats({3}, {1, 5, 3})};
  part.apply({.what = kind::add, .all = floats({3}, {1, 1, 2})});
  EXPECT_EQ(values(part.value()), (std::vector<float>{2, 6, 5}));
  part.apply({.what = kind::subtract, .all = floats({3}, {1, 0, 1})});
  EXPECT_EQ(values(part.value()), (std::vector<float>{1, 6, 4}));
  part.apply({.what = kind::minimum, .all = floats({3}, {2, 2, 2})});
  EXPECT_EQ(values(part.value()), (std::vector<float>{1, 2, 2}));
  part.apply({.what = kind::maximum, .all = floats({3}, {3, 1, 2})});
  EXPECT_EQ(values(part.value()), (std::vector<float>{3, 2, 2}));
  part.apply({.what = kind::assign, .all = floats({3}, {7, 8, 9})});
  EXPECT_EQ(values(part.value()), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(part.version(), 5u);
}

TEST(StoredPart, ChangesARowThatOccursTwiceTwice) {
  const shape dims{3, 2};
  stored_part part{floats(dims, {0, 0, 1, 1, 2, 2})};
  const auto operand = floats({3, 2}, {10, 20, 30, 40, 50, 60});
  part.apply({.what = kind::add, .rows = rows_of(dims, {2, 0, 2}, operand)});
  EXPECT_EQ(values(part.value()), (std::vector<float>{30, 40, 1, 1, 62, 82}));
  part.apply({.what = kind::assign, .rows = rows_of(dims, {1, 0, 1}, operand)});
  EXPECT_EQ(values(part.value()), (std::vector<float>{30, 40, 50, 60, 62, 82}));
}

TEST(StoredPart, ChangesIntegers) {
  stored_part part{tensor::full({}, 40, dtype::int64)};
  part.apply({.what = kind::add, .all = tensor::full({}, 2, dtype::int64)});
  EXPECT_EQ(part.value().item<std::int64_t>(), 42);
}

TEST(StoredPart, DoesNotChangeAValueThatAReaderHas) {
  stored_part part{floats({2}, {1, 2})};
  const auto before = part.value();
  part.apply({.what = kind::add, .all = floats({2}, {1, 1})});
  EXPECT_EQ(values(before), (std::vector<float>{1, 2}));
  EXPECT_EQ(values(part.value()), (std::vector<float>{2, 3}));
}

TEST(StoredPart, ACopyChangesApart) {
  stored_part part{floats({2}, {1, 2})};
  const part_change gradient{.what = kind::gradient,
                             .all = floats({2}, {1, 1}),
                             .rule = sgd{.learning_rate = 1, .momentum = 0.5f}};
  part.apply(gradient);
  auto copy = part;
  copy.apply(gradient);
  EXPECT_EQ(values(copy.value()), (std::vector<float>{-1.5f, -0.5f}));
  EXPECT_EQ(values(part.value()), (std::vector<float>{0, 1}));
  part.apply(gradient); // its slots are those after one step
  EXPECT_TRUE(same_bits(part.value(), copy.value()));
}

/// The rules of `update_rule` are the oracle.
TEST(StoredPart, AppliesGradientsAsTheUpdateRule) {
  const std::vector<update_rule> rules{
    sgd{.learning_rate = 0.1f}, sgd{.learning_rate = 0.1f, .momentum = 0.9f},
    adam{.learning_rate = 0.01f}, adagrad{.learning_rate = 0.1f},
    ftrl{.learning_rate = 0.1f}};
  for (const auto& rule : rules) {
    SCOPED_TRACE(rule.name());
    stored_part part{floats({2}, {0.5f, -0.25f})};
    auto expected = floats({2}, {0.5f, -0.25f});
    std::vector<tensor> slots;
    std::vector<std::span<float>> ranges;
    for (std::size_t i = 0; i < rule.slots(); ++i)
      slots.push_back(tensor::full({2}, rule.initial_slot_value(i)));
    for (auto& one : slots)
      ranges.push_back(one.mutable_data<float>());
    for (std::uint64_t step = 1; step <= 4; ++step) {
      const auto gradient = floats({2}, {0.3f * float(step), -1});
      part.apply({.what = kind::gradient, .all = gradient, .rule = rule});
      rule.apply(expected.mutable_data<float>(), gradient.data<float>(), ranges,
                 step, rule.learning_rate());
    }
    EXPECT_TRUE(same_bits(part.value(), expected));
  }
}

TEST(StoredPart, AGradientOfSomeRowsMovesThemOnly) {
  const shape dims{3, 1};
  const update_rule rule = sgd{.learning_rate = 1, .momentum = 0.5f};
  stored_part part{floats(dims, {0, 0, 0})};
  const auto all = [&](float x) {
    return part_change{
      .what = kind::gradient, .all = floats(dims, {x, x, x}), .rule = rule};
  };
  part.apply(all(1)); // v = 1
  // The parts of row 2 are added: v = 0.5 + 3.
  part.apply({.what = kind::gradient,
              .rows = rows_of(dims, {2, 0, 2}, floats({3, 1}, {1, 1, 2})),
              .rule = rule});
  EXPECT_EQ(values(part.value()), (std::vector<float>{-2.5f, -1, -4.5f}));
  part.apply(all(0)); // the velocity of row 1 is still 1
  EXPECT_EQ(values(part.value()), (std::vector<float>{-3.25f, -1.5f, -6.25f}));
}

TEST(StoredPart, EachOptimizerHasSlotsOfItsOwn) {
  const update_rule rule = sgd{.learning_rate = 1, .momentum = 0.5f};
  stored_part part{floats({1}, {0})};
  for (const std::uint32_t optimizer : {0u, 1u, 0u})
    part.apply({.what = kind::gradient,
                .all = floats({1}, {1}),
                .optimizer = optimizer,
                .rule = rule});
  EXPECT_EQ(values(part.value()), (std::vector<float>{-3.5f}));
  EXPECT_EQ(part.bytes(), 12u);
}

std::string error_of_part(const part_change& change) {
  stored_part part{floats({2}, {1, 2})};
  try {
    part.apply(change);
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(values(part.value()), (std::vector<float>{1, 2}));
    EXPECT_EQ(part.version(), 0u);
    return e.what();
  }
  return "none";
}

TEST(StoredPart, RejectsWhatDoesNotFit) {
  EXPECT_EQ(error_of_part({.what = kind::add, .all = floats({3}, {1, 2, 3})}),
            "assign_add: the variable is float32[2], the value float32[3]");
  EXPECT_EQ(error_of_part({.all = tensor::zeros({2}, dtype::int64)}),
            "assign: the variable is float32[2], the value int64[2]");
  EXPECT_EQ(error_of_part({}),
            "assign: needs a value for all elements or for some rows");
  EXPECT_EQ(error_of_part({.what = kind::gradient, .all = floats({2}, {1, 2})}),
            "apply: needs an update rule");
  EXPECT_THROW(stored_part{tensor::zeros({2}, dtype::boolean)},
               std::invalid_argument);
  stored_part part{floats({1}, {0})};
  part.apply({.what = kind::gradient, .all = floats({1}, {1}), .rule = adam{}});
  EXPECT_THROW(
    part.apply(
      {.what = kind::gradient, .all = floats({1}, {1}), .rule = adagrad{}}),
    std::invalid_argument);
  stored_part integers{tensor::zeros({1}, dtype::int64)};
  EXPECT_THROW(integers.check({.what = kind::gradient,
                               .all = tensor::zeros({1}, dtype::int64),
                               .rule = adam{}}),
               std::invalid_argument);
}

part_change contribution(std::uint64_t step, std::uint32_t replica,
                         std::vector<float> gradient) {
  return {.what = kind::contribute,
          .all = floats({std::int64_t(gradient.size())}, gradient),
          .step = step,
          .replica = replica};
}

part_change step_of(std::uint64_t step, std::vector<std::uint32_t> contributors,
                    const update_rule& rule, float scale = 1) {
  return {.what = kind::apply_contributions,
          .rule = rule,
          .scale = scale,
          .step = step,
          .contributors = std::move(contributors)};
}

TEST(StoredPart, AddsTheContributionsToAStepInTreeOrder) {
  stored_part part{floats({1}, {0})};
  // ((1e8 + 1) + (-1e8 + 1)) + 3 has other bits than a sum from left to right:
  // 1e8 + 1 is 1e8, and -1e8 + 1 is -1e8.
  for (const std::uint32_t replica : {4u, 2u, 0u, 3u, 1u})
    part.apply(contribution(
      7, replica, {std::vector<float>{1e8F, 1, -1e8F, 1, 3}[replica]}));
  EXPECT_EQ(values(part.value()), std::vector<float>{0});
  EXPECT_EQ(part.version(), 0u);
  part.apply(step_of(7, {0, 1, 2, 3, 4}, sgd{.learning_rate = 1}));
  EXPECT_EQ(values(part.value()), std::vector<float>{-3});
  EXPECT_EQ(part.version(), 1u);
}

TEST(StoredPart, AppliesAStepOnceAndTakesNothingForItAfterwards) {
  stored_part part{floats({2}, {1, 1})};
  const auto rule = sgd{.learning_rate = 0.5F};
  part.apply(contribution(0, 0, {2, 4}));
  part.apply(contribution(0, 1, {100, 100})); // too late to count
  part.apply(step_of(0, {0}, rule, 0.5F));
  EXPECT_EQ(values(part.value()), (std::vector<float>{0.5F, 0}));
  part.apply(step_of(0, {0}, rule, 0.5F)); // repeated
  part.apply(step_of(0, {1}, rule, 0.5F));
  part.apply(contribution(0, 2, {100, 100}));
  EXPECT_EQ(values(part.value()), (std::vector<float>{0.5F, 0}));
  EXPECT_EQ(part.bytes(), 8u); // it keeps no gradient
}

TEST(StoredPart, KeepsTheLastOfRepeatedContributions) {
  stored_part part{floats({1}, {0})};
  part.apply(contribution(3, 0, {1}));
  part.apply(contribution(3, 0, {1}));
  part.apply(step_of(3, {0}, sgd{.learning_rate = 1}));
  EXPECT_EQ(values(part.value()), std::vector<float>{-1});
}

TEST(StoredPart, CountsAStepWithoutContributors) {
  // Adam divides by 1 - beta^t: the update after a skipped step is that of t=2.
  const auto rule = adam{.learning_rate = 0.1F};
  stored_part skipped{floats({1}, {0})}, whole{floats({1}, {0})};
  skipped.apply(step_of(0, {}, rule));
  EXPECT_EQ(values(skipped.value()), std::vector<float>{0});
  whole.apply(contribution(0, 0, {0})); // a gradient of zero changes nothing
  whole.apply(step_of(0, {0}, rule));
  for (auto* one : {&skipped, &whole}) {
    one->apply(contribution(1, 0, {2}));
    one->apply(step_of(1, {0}, rule));
  }
  EXPECT_EQ(values(skipped.value()), values(whole.value()));
  EXPECT_NE(values(skipped.value()), std::vector<float>{0});
}

TEST(StoredPart, RejectsImpossibleSteps) {
  stored_part part{floats({1}, {0})};
  const auto rule = sgd{};
  part.apply(contribution(5, 1, {1}));
  for (const auto& wrong :
       {step_of(5, {0, 1}, rule), // replica 0 has contributed nothing
        step_of(6, {1}, rule), step_of(5, {1, 1}, rule),
        step_of(~std::uint64_t{0}, {}, rule),
        contribution(5, 0, {1, 2}), // another shape
        part_change{.what = kind::apply_contributions, .step = 5}})
    EXPECT_THROW(part.check(wrong), std::invalid_argument);
  EXPECT_THROW(part.check(contribution(5, max_contributors, {1})),
               std::invalid_argument);
  for (std::uint64_t step = 6; step < 5 + max_waiting_steps; ++step)
    part.apply(contribution(step, 0, {1}));
  EXPECT_THROW(part.check(contribution(100, 0, {1})), std::invalid_argument);
  EXPECT_EQ(values(part.value()), std::vector<float>{0});
  part.apply(step_of(5, {1}, rule));
  part.apply(contribution(100, 0, {1}));
}

TEST(StoredPart, CountsAStepThatIsSkipped) {
  const update_rule rule = adam{.learning_rate = 0.1F};
  stored_part skipping{floats({2}, {1, 2})}, expected{floats({2}, {1, 2})};
  skipping.apply({.what = kind::count_step, .rule = rule});
  expected.apply(step_of(0, {}, rule));
  EXPECT_EQ(skipping.steps(0), 1u);
  EXPECT_EQ(skipping.version(), expected.version());
  EXPECT_EQ(values(skipping.value()), (std::vector<float>{1, 2}));
  for (auto* one : {&skipping, &expected}) {
    one->apply(contribution(1, 0, {4, -4}));
    one->apply(step_of(1, {0}, rule));
  }
  EXPECT_EQ(values(skipping.value()), values(expected.value()));
}

TEST(StoredPart, RestoresTheStateOfAnOptimizer) {
  const update_rule rule = adam{.learning_rate = 0.1F};
  stored_part original{floats({2}, {1, 2})};
  EXPECT_EQ(values(original.slot(0, rule, 1)), (std::vector<float>{0, 0}));
  EXPECT_EQ(original.steps(0), 0u);
  for (std::uint64_t step = 0; step < 3; ++step) {
    original.apply(contribution(step, 0, {1, -2}));
    original.apply(step_of(step, {0}, rule));
  }
  EXPECT_EQ(original.steps(0), 3u);
  stored_part restored{original.value().clone()};
  restored.apply(contribution(9, 0, {5, 5})); // is forgotten
  for (std::uint32_t slot = 0; slot < rule.slots(); ++slot)
    restored.apply({.what = kind::restore_slot,
                    .all = original.slot(0, rule, slot),
                    .rule = rule,
                    .slot = slot});
  restored.apply({.what = kind::restore_steps, .rule = rule, .steps = 3});
  for (auto* one : {&original, &restored}) {
    one->apply(contribution(3, 0, {4, 4}));
    one->apply(step_of(3, {0}, rule));
  }
  EXPECT_EQ(values(restored.value()), values(original.value()));
  EXPECT_THROW(original.slot(0, rule, 2), std::invalid_argument);
  EXPECT_THROW(restored.apply({.what = kind::restore_slot,
                               .all = floats({2}, {1, 1}),
                               .rule = rule,
                               .slot = 2}),
               std::invalid_argument);
  EXPECT_THROW(restored.apply({.what = kind::restore_slot,
                               .all = floats({3}, {1, 1, 1}),
                               .rule = rule}),
               std::invalid_argument);
}

} // namespace
} // namespace troupe::parameter_server
