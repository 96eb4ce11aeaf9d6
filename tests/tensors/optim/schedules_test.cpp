#include "troupe/tensors/optim/schedules.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>

namespace {

using troupe::constant_schedule;
using troupe::cosine_schedule;
using troupe::hyperparameters;
using troupe::schedule;
using troupe::step_schedule;

TEST(Schedules, ConstantIsConstant) {
  const schedule s{constant_schedule{.learning_rate = 0.3f}};
  for (const std::uint64_t step : {0ull, 1ull, ~0ull})
    EXPECT_EQ(s.at(step), 0.3f);
}

TEST(Schedules, StepMultipliesAtEachMultiple) {
  const schedule s{
    step_schedule{.learning_rate = 8, .factor = 0.5f, .every = 10}};
  EXPECT_EQ(s.at(0), 8);
  EXPECT_EQ(s.at(9), 8);
  EXPECT_EQ(s.at(10), 4);
  EXPECT_EQ(s.at(29), 2);
  EXPECT_EQ(s.at(30), 1);
  EXPECT_EQ(s.at(~0ull), 0);
}

TEST(Schedules, NoneGivesARateThatIsNotFinite) {
  const auto at = [](const schedule& s, std::uint64_t step) {
    try {
      return std::to_string(s.at(step));
    } catch (const std::invalid_argument& e) {
      return std::string{e.what()};
    }
  };
  const schedule grows{
    step_schedule{.learning_rate = 1, .factor = 10, .every = 1}};
  EXPECT_EQ(at(grows, 3), "1000.000000");
  EXPECT_EQ(at(grows, 39), "the schedule 'step' has no finite learning rate at "
                           "step 39; give it values with which the rate stays "
                           "a float");
  EXPECT_NE(at(grows, ~0ull).find("no finite"), std::string::npos);
  const schedule zero{
    step_schedule{.learning_rate = 0, .factor = 2, .every = 1}};
  EXPECT_NE(at(zero, ~0ull).find("no finite"), std::string::npos)
    << "0 times infinity";
  const schedule largest{cosine_schedule{
    .learning_rate = 3e38f, .final_rate = 3e38f, .steps = 4, .warm_up = 2}};
  for (std::uint64_t step = 0; step < 6; ++step)
    EXPECT_TRUE(std::isfinite(largest.at(step)));
}

TEST(Schedules, CosineFallsFromItsRateToItsFinalRate) {
  const schedule s{
    cosine_schedule{.learning_rate = 3, .final_rate = 1, .steps = 100}};
  EXPECT_EQ(s.at(0), 3);
  EXPECT_EQ(s.at(50), 2);
  EXPECT_EQ(s.at(100), 1);
  EXPECT_EQ(s.at(101), 1);
  EXPECT_EQ(s.at(~0ull), 1);
  for (std::uint64_t step = 0; step <= 100; ++step) {
    const auto truth =
      2 + std::cos(3.141592653589793 * static_cast<double>(step) / 100);
    EXPECT_EQ(s.at(step), static_cast<float>(truth)) << step;
  }
}

TEST(Schedules, CosineWarmsUpLinearlyWithoutAJump) {
  const schedule s{cosine_schedule{
    .learning_rate = 4, .final_rate = 0, .steps = 12, .warm_up = 4}};
  EXPECT_EQ(s.at(0), 1);
  EXPECT_EQ(s.at(1), 2);
  EXPECT_EQ(s.at(3), 4);
  EXPECT_EQ(s.at(4), 4);
  EXPECT_EQ(s.at(8), 2);
  EXPECT_EQ(s.at(12), 0);
}

TEST(Schedules, HaveTheirNameAndHyperparameters) {
  const schedule cases[] = {constant_schedule{0.1f},
                            step_schedule{0.2f, 0.3f, 7},
                            cosine_schedule{0.4f, 0.1f, 50, 5}};
  for (const auto& s : cases) {
    const schedule again{s.name(), s.numbers()};
    EXPECT_EQ(again.name(), s.name());
    for (std::uint64_t step = 0; step < 60; ++step)
      EXPECT_EQ(again.at(step), s.at(step)) << s.name() << ' ' << step;
  }
  const hyperparameters expected{
    {"learning_rate", 0.4}, {"final_rate", 0.1}, {"steps", 50}, {"warm_up", 5}};
  EXPECT_EQ(cases[2].numbers(), expected);
}

TEST(Schedules, ReportInvalidHyperparametersInOneSentence) {
  const auto refusal = [](const std::string& name,
                          const hyperparameters& numbers) {
    try {
      schedule{name, numbers};
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
    return std::string{"no error"};
  };
  EXPECT_EQ(refusal("linear", {}),
            "the schedule 'linear' is unknown; there are constant, step, "
            "cosine");
  EXPECT_EQ(refusal("step", {{"gamma", 1}}),
            "step has no 'gamma'; it has learning_rate, factor, every");
  EXPECT_EQ(refusal("step", {{"every", 0}}),
            "step: every is 0; it must be at least 1");
  EXPECT_EQ(refusal("step", {{"every", 1.5}}),
            "step: every is 1.5; it must be a whole number from 0");
  EXPECT_EQ(refusal("step", {{"every", -1}}),
            "step: every is -1; it must be a whole number from 0");
  EXPECT_EQ(refusal("cosine", {{"steps", 10}, {"warm_up", 10}}),
            "cosine: warm_up is 10; it must be below steps");
  EXPECT_EQ(refusal("constant", {{"learning_rate", -1}}),
            "constant: learning_rate is -1; it must be at least 0");
  EXPECT_EQ(refusal("constant", {{"learning_rate", NAN}}),
            "constant: learning_rate is nan; it must be a finite number");
}

} // namespace
