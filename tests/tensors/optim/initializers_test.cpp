#include "troupe/tensors/optim/initializers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using troupe::hyperparameters;
using troupe::initializer;
using troupe::shape;

std::vector<float> filled(const initializer& by, const shape& dims,
                          std::uint64_t seed = 1, std::uint32_t index = 0) {
  std::vector<float> out(dims.elements());
  by.fill(out, dims, troupe::initial_key(seed, index));
  return out;
}

std::string refusal_of(const std::string& name,
                       const hyperparameters& numbers) {
  try {
    initializer{name, numbers};
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Fans, CountInputsAndOutputs) {
  const auto expect = [](const shape& dims, double in, double out) {
    EXPECT_EQ(troupe::fans_of(dims).in, in) << to_string(dims);
    EXPECT_EQ(troupe::fans_of(dims).out, out) << to_string(dims);
  };
  expect({}, 1, 1);
  expect({7}, 7, 7);
  expect({784, 512}, 784, 512);
  expect({5, 5, 32, 64}, 800, 1600);
  expect({3, 8, 4}, 24, 12);
}

TEST(Initializer, FillsWithConstants) {
  EXPECT_EQ(filled(initializer{"zeros"}, {3}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(filled(initializer{"ones"}, {2}), (std::vector<float>{1, 1}));
  const hyperparameters value{{"value", 0.1}};
  EXPECT_EQ(filled(initializer{"constant", value}, {1, 2}),
            (std::vector<float>{0.1f, 0.1f}));
}

// Mean, variance and range follow the definition. Seeds are fixed; a bound is
// five standard deviations of the estimate.
TEST(Initializer, HasTheMomentsOfItsDefinition) {
  struct expected {
    const char* name;
    shape dims;
    double deviation;
    bool uniform;
  };
  const shape dense{1000, 250}, conv{5, 5, 32, 64};
  const expected cases[] = {
    {"uniform", dense, 0.1 / std::sqrt(12.0), true},
    {"normal", dense, 0.05, false},
    {"glorot_uniform", dense, std::sqrt(2.0 / 1250), true},
    {"glorot_uniform", conv, std::sqrt(2.0 / 2400), true},
    {"glorot_normal", dense, std::sqrt(2.0 / 1250), false},
    {"he_uniform", conv, std::sqrt(2.0 / 800), true},
    {"he_normal", dense, std::sqrt(2.0 / 1000), false},
  };
  for (const auto& tested : cases) {
    SCOPED_TRACE(tested.name + to_string(tested.dims));
    const auto x = filled(initializer{tested.name}, tested.dims);
    const auto n = static_cast<double>(x.size());
    double sum = 0, squares = 0, most = 0;
    for (const auto each : x) {
      sum += each;
      squares += static_cast<double>(each) * each;
      most = std::max(most, std::fabs(static_cast<double>(each)));
    }
    const auto variance = tested.deviation * tested.deviation;
    EXPECT_NEAR(sum / n, 0, 5 * tested.deviation / std::sqrt(n));
    // `excess` is the variance of (x / deviation)^2. It is fourth moment /
    // variance^2 - 1: 9/5 - 1 for uniform values, 3 - 1 for normal values.
    const auto excess = tested.uniform ? 0.8 : 2.0;
    EXPECT_NEAR(squares / n, variance, 5 * variance * std::sqrt(excess / n));
    if (tested.uniform) {
      EXPECT_LE(most, tested.deviation * std::sqrt(3.0) * (1 + 1e-6));
      EXPECT_GT(most, tested.deviation * std::sqrt(3.0) * 0.999);
    }
  }
}

TEST(Initializer, DependsOnTheSeedAndTheParameter) {
  const initializer by{"glorot_uniform"};
  const shape dims{4, 4};
  EXPECT_EQ(filled(by, dims, 1, 0), filled(by, dims, 1, 0));
  EXPECT_NE(filled(by, dims, 1, 0), filled(by, dims, 2, 0));
  EXPECT_NE(filled(by, dims, 1, 0), filled(by, dims, 1, 1));
}

TEST(Initializer, FillsARangeWithTheBitsOfTheWhole) {
  const shape dims{7, 5};
  const auto key = troupe::initial_key(3, 1);
  for (const auto& name : troupe::initializer_names()) {
    const initializer by{name};
    const auto all = filled(by, dims, 3, 1);
    for (const std::size_t first : {0u, 1u, 13u, 35u}) {
      std::vector<float> some(std::min<std::size_t>(11, 35 - first));
      by.fill_range(some, dims, key, first);
      EXPECT_TRUE(std::equal(some.begin(), some.end(),
                             all.begin() + std::ptrdiff_t(first)))
        << name << " from " << first;
    }
  }
  std::vector<float> two(2);
  EXPECT_THROW(initializer{"ones"}.fill_range(two, dims, key, 34),
               std::logic_error);
}

TEST(Initializer, HasItsNameAndHyperparameters) {
  for (const auto& name : troupe::initializer_names()) {
    const initializer plain{name};
    const initializer again{plain.name(), plain.numbers()};
    EXPECT_EQ(filled(plain, {3, 5}), filled(again, {3, 5})) << name;
  }
  const hyperparameters ends{{"high", 2}, {"low", 1}};
  for (const auto x : filled(initializer{"uniform", ends}, {100}))
    EXPECT_TRUE(x >= 1 && x < 2);
}

TEST(Initializer, FillsAParameterWithoutElements) {
  EXPECT_TRUE(filled(initializer{"he_normal"}, {0, 0}).empty());
  EXPECT_TRUE(filled(initializer{"glorot_uniform"}, {0}).empty());
}

TEST(Initializer, ErrorsListTheKnownNames) {
  EXPECT_EQ(refusal_of("xavier", {}),
            "the initializer 'xavier' is unknown; there are zeros, ones, "
            "constant, uniform, normal, glorot_uniform, glorot_normal, "
            "he_uniform, he_normal");
  EXPECT_EQ(refusal_of("uniform", {{"hgih", 1}}),
            "uniform has no 'hgih'; it has low, high");
  EXPECT_EQ(refusal_of("zeros", {{"value", 1}}),
            "zeros has no 'value'; it has no numbers");
  EXPECT_EQ(refusal_of("constant", {{"value", 1}, {"value", 1}}),
            "constant was given 'value' twice; give it once");
  EXPECT_EQ(refusal_of("uniform", {{"low", 1}, {"high", 1}}),
            "uniform: high is 1; it must be above low");
  EXPECT_EQ(refusal_of("uniform", {{"low", -3e38}, {"high", 3e38}}),
            "uniform: high is 3e+38; it is too far above low");
  EXPECT_EQ(refusal_of("normal", {{"deviation", -1}}),
            "normal: deviation is -1; it must not be negative");
  EXPECT_EQ(refusal_of("constant", {{"value", 1e300}}),
            "constant: value is 1e+300; it must be a finite number");
}

TEST(Initializer, RejectsABufferOfAnotherSize) {
  std::vector<float> out(5);
  EXPECT_THROW(initializer{"zeros"}.fill(out, {2, 3}, {}), std::logic_error);
}

} // namespace
