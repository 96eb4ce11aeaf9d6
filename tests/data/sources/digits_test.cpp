#include "troupe/data/sources/digits.hpp"
#include "troupe/data/sources/synthetic.hpp"
#include "troupe/tests/data/counted.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace troupe::data {
namespace {

using testing::complaint;

/// Returns the 64-bit FNV-1a hash of the tensor's bytes.
std::uint64_t hash(const tensor& x) {
  std::uint64_t out = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < x.bytes(); ++i)
    out = (out ^ std::uint8_t(x.raw()[i])) * 0x100000001b3;
  return out;
}

/// Softmax regression by gradient descent, one example at a time.
class linear_model {
public:
  void learn(const batch& x, float rate) {
    for (std::size_t i = 0; i < x.labels.size(); ++i) {
      auto scores = score(x, i);
      const auto top = std::ranges::max(scores);
      float sum = 0;
      for (auto& s : scores)
        sum += s = std::exp(s - top);
      for (std::size_t c = 0; c < 10; ++c) {
        const bool right = x.labels.data<std::int32_t>()[i] == int(c);
        const auto step = rate * (scores[c] / sum - float(right));
        const auto in = row(x, i);
        for (std::size_t k = 0; k < in.size(); ++k)
          weights_[c][k] -= step * in[k];
        bias_[c] -= step;
      }
    }
  }

  double accuracy(const batch& x) const {
    std::size_t right = 0;
    for (std::size_t i = 0; i < x.labels.size(); ++i) {
      const auto scores = score(x, i);
      const auto best = std::ranges::max_element(scores) - scores.begin();
      right += best == x.labels.data<std::int32_t>()[i];
    }
    return double(right) / double(x.labels.size());
  }

private:
  static std::span<const float> row(const batch& x, std::size_t i) {
    return x.inputs.data<float>().subspan(784 * i, 784);
  }

  std::array<float, 10> score(const batch& x, std::size_t i) const {
    auto out = bias_;
    const auto in = row(x, i);
    for (std::size_t c = 0; c < 10; ++c)
      for (std::size_t k = 0; k < in.size(); ++k)
        out[c] += weights_[c][k] * in[k];
    return out;
  }

  std::array<std::array<float, 784>, 10> weights_{};
  std::array<float, 10> bias_{};
};

TEST(Digits, AreTenClassesOfImagesInTheUnitRange) {
  const auto x = digits({.examples = 2000, .seed = 3});
  EXPECT_EQ(x.size(), 2000u);
  EXPECT_EQ(x.classes(), 10);
  EXPECT_EQ(x.element(), (tensor_spec{{28, 28, 1}, dtype::float32}));
  const auto examples = x.examples(0, 2000);
  const auto [low, high] = std::ranges::minmax(examples.inputs.data<float>());
  EXPECT_EQ(low, 0.0f);
  EXPECT_EQ(high, 1.0f);
  std::array<int, 10> count{};
  for (const auto label : examples.labels.data<std::int32_t>())
    ++count[std::size_t(label)];
  for (const auto each : count)
    EXPECT_NEAR(each, 200, 60); // 60 is 4.5 standard deviations
}

TEST(Digits, DependOnSeedAndIndexAlone) {
  const auto few = digits({.examples = 5, .seed = 9}).examples(0, 5);
  const auto many = digits({.examples = 50, .seed = 9}).examples(0, 5);
  EXPECT_TRUE(same_bits(few.inputs, many.inputs));
  EXPECT_TRUE(same_bits(few.labels, many.labels));
  const auto other = digits({.examples = 5, .seed = 10}).examples(0, 5);
  EXPECT_FALSE(same_bits(few.inputs, other.inputs));
}

// The digits have the same bits on every machine, because training results are
// compared bit by bit between machines.
TEST(Digits, HaveTheSameBitsOnEveryMachine) {
  const auto x = digits({.examples = 100, .seed = 1}).examples(0, 100);
  EXPECT_EQ(hash(x.inputs), 12421490344567595582u);
  EXPECT_EQ(hash(x.labels), 219076129067148821u);
}

TEST(Digits, AreTooHardForALinearModelAndNotForLearning) {
  const auto [train, test] = digits({.examples = 6000, .seed = 1}).split(0.8);
  linear_model model;
  double best = 0;
  for (std::uint64_t pass = 0; pass < 6; ++pass) {
    auto each = train.shuffle(whole_dataset, 1).batch(64).iterate({pass, 0});
    for (const auto& x : each)
      model.learn(x, pass < 3 ? .01f : .003f);
    best = std::max(best, model.accuracy(test.examples(0, *test.size())));
  }
  EXPECT_GT(best, 0.60);
  EXPECT_LT(best, 0.90);
}

TEST(Digits, RejectNoneAndTooMany) {
  EXPECT_EQ(complaint([] { digits({.examples = 0}); }),
            "0 generated digits: give a number from 1 to 16777216");
  EXPECT_THROW(digits({.examples = 1ull << 40}), std::invalid_argument);
}

TEST(Synthetic, IsStandardNormalAndRepeatable) {
  const synthetic_options asked{
    .example = {10, 10}, .examples = 1000, .classes = 4, .seed = 2};
  const auto x = synthetic(asked).examples(0, 1000);
  EXPECT_EQ(x.inputs.dims(), (shape{1000, 10, 10}));
  double sum = 0, squares = 0;
  for (const double each : x.inputs.data<float>()) {
    sum += each;
    squares += each * each;
  }
  EXPECT_NEAR(sum / 1e5, 0, .02);
  EXPECT_NEAR(squares / 1e5, 1, .03);
  EXPECT_TRUE(same_bits(x.inputs, synthetic(asked).examples(0, 1000).inputs));
  EXPECT_EQ(std::ranges::max(x.labels.data<std::int32_t>()), 3);
  EXPECT_THROW(synthetic({.examples = 0}), std::invalid_argument);
  EXPECT_THROW(synthetic({.classes = 0}), std::invalid_argument);
}

} // namespace
} // namespace troupe::data
