#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tests/tensors/special_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace {

using troupe::test::infinity;
using troupe::test::nan;

/// Returns the error of a float in units of the last place of the true value.
double ulps(float got, double truth) {
  const auto near = static_cast<float>(truth);
  const auto next = std::nextafter(std::fabs(near), infinity);
  const auto spacing = static_cast<double>(next) - std::fabs(near);
  return std::fabs(static_cast<double>(got) - truth) / spacing;
}

std::vector<float> exp_of(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  troupe::kernels().exp(y.data(), x.data(), x.size());
  return y;
}

TEST(KernelExp, IsWithinOneUlpFromZeroToInfinity) {
  // Every 211th float from -110 to 110. As a float, e^-110 is 0, and e^110 is
  // infinite.
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(110.0f);
       bits += 211)
    for (const auto sign : {0u, 0x80000000u})
      x.push_back(std::bit_cast<float>(bits | sign));
  const auto y = exp_of(x);
  double worst = 0;
  float worst_input = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto truth = std::exp(static_cast<double>(x[i]));
    if (static_cast<float>(truth) == infinity) {
      ASSERT_EQ(y[i], infinity) << x[i];
      continue;
    }
    if (const auto error = ulps(y[i], truth); error > worst) {
      worst = error;
      worst_input = x[i];
    }
  }
  EXPECT_LT(worst, 1.0) << "at " << worst_input;
  RecordProperty("worst_ulps", std::to_string(worst));
}

TEST(KernelExp, AcceptsNonfiniteValues) {
  const auto y = exp_of({-infinity, infinity, nan, -1e30f, 1e30f, 0, -0.0f});
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], infinity);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0);
  EXPECT_EQ(y[4], infinity);
  EXPECT_EQ(y[5], 1);
  EXPECT_EQ(y[6], 1);
}

TEST(KernelSigmoidCrossEntropy, IsPreciseFromZeroToTheLargestScores) {
  // Every 1013th float from -110 to 110.
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(110.0f);
       bits += 1013)
    for (const auto sign : {0u, 0x80000000u})
      x.push_back(std::bit_cast<float>(bits | sign));
  for (const float target : {0.0f, 1.0f, 0.3f}) {
    const std::vector<float> z(x.size(), target);
    std::vector<float> losses(x.size()), gradient(x.size());
    troupe::kernels().sigmoid_cross_entropy(losses.data(), gradient.data(),
                                            x.data(), z.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double score = x[i], wanted = target;
      const auto e = std::exp(-std::abs(score));
      const auto loss = std::max(score, 0.0) - score * wanted + std::log1p(e);
      const auto p = (score < 0 ? e : 1) / (1 + e);
      // The product is exact for the targets 0 and 1.
      const bool is_exact = target == 0 || target == 1;
      ASSERT_NEAR(losses[i], loss,
                  is_exact ? 5e-7 * loss + 1e-44 : 3e-7 * (std::abs(score) + e))
        << x[i] << ", target " << target;
      ASSERT_NEAR(gradient[i], p - wanted, 1.5e-7) << x[i];
    }
  }
}

TEST(KernelSigmoidCrossEntropy, AcceptsNonfiniteValues) {
  const std::vector<float> x{infinity, -infinity, nan, 1e30f, -1e30f, 0},
    z{0, 1, 0, 1, 0, nan};
  std::vector<float> losses(x.size()), gradient(x.size());
  troupe::kernels().sigmoid_cross_entropy(losses.data(), gradient.data(),
                                          x.data(), z.data(), x.size());
  EXPECT_TRUE(std::isnan(losses[0])); // infinity * 0
  EXPECT_EQ(losses[1], infinity);
  EXPECT_TRUE(std::isnan(losses[2]));
  EXPECT_EQ(losses[3], 0);
  EXPECT_EQ(losses[4], 0);
  EXPECT_TRUE(std::isnan(losses[5]));
  EXPECT_EQ(gradient[0], 1);
  EXPECT_EQ(gradient[1], -1);
  EXPECT_TRUE(std::isnan(gradient[2]));
  EXPECT_EQ(gradient[3], 0);
  EXPECT_EQ(gradient[4], 0);
  EXPECT_TRUE(std::isnan(gradient[5]));
}

struct entropy {
  std::vector<float> losses, gradient;
  std::size_t rows;
};

entropy cross_entropy(const std::vector<float>& logits,
                      const std::vector<std::int32_t>& labels) {
  const auto m = labels.size(), n = logits.size() / m;
  entropy out{std::vector<float>(m), std::vector<float>(m * n), 0};
  out.rows = troupe::kernels().softmax_cross_entropy(
    logits.data(), labels.data(), m, n, out.losses.data(), out.gradient.data());
  return out;
}

/// Returns -log softmax(x)[label] and writes softmax(x) to `p`, in float64.
double reference(const float* x, std::size_t n, std::size_t label,
                 std::vector<double>& p) {
  double most = x[0], sum = 0;
  for (std::size_t i = 1; i < n; ++i)
    most = std::max(most, static_cast<double>(x[i]));
  p.assign(n, 0);
  for (std::size_t i = 0; i < n; ++i)
    sum += p[i] = std::exp(static_cast<double>(x[i]) - most);
  for (auto& each : p)
    each /= sum;
  return std::log(sum) - (static_cast<double>(x[label]) - most);
}

TEST(KernelCrossEntropy, AgreesWithFloat64OverOddShapes) {
  std::mt19937 rng{11};
  for (const std::size_t n : {1, 2, 3, 10, 15, 16, 17, 100, 1000})
    for (const float spread : {0.01f, 1.0f, 30.0f, 300.0f}) {
      constexpr std::size_t m = 5;
      std::vector<float> x(m * n);
      for (auto& each : x)
        each = spread * (static_cast<float>(rng() % 2001) / 1000 - 1);
      std::vector<std::int32_t> labels(m);
      for (auto& label : labels)
        label = static_cast<std::int32_t>(rng() % n);
      const auto got = cross_entropy(x, labels);
      ASSERT_EQ(got.rows, m);
      std::vector<float> soft(m * n);
      troupe::kernels().softmax(soft.data(), x.data(), m, n);
      std::vector<double> p;
      for (std::size_t row = 0; row < m; ++row) {
        const auto label = static_cast<std::size_t>(labels[row]);
        const auto loss = reference(x.data() + row * n, n, label, p);
        EXPECT_NEAR(got.losses[row], loss, 1e-6 * std::max(1.0, loss));
        for (std::size_t i = 0; i < n; ++i) {
          // The bound is about 17 ulps of 1. It is above one ulp, because
          // x - maximum is rounded, and this rounding error grows with the
          // range of x.
          EXPECT_NEAR(soft[row * n + i], p[i], 2e-6);
          EXPECT_NEAR(got.gradient[row * n + i], p[i] - (i == label), 2e-6);
        }
      }
    }
}

TEST(KernelCrossEntropy, IsExactForLargeOrMinusInfiniteLogits) {
  const auto got = cross_entropy({1e30f, 0, -infinity, 0}, {0, 1});
  EXPECT_EQ(got.losses[0], 0);
  EXPECT_EQ(got.losses[1], 0);
  EXPECT_EQ(got.gradient, (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(cross_entropy({-infinity, 0}, {0}).losses[0], infinity);
}

TEST(KernelCrossEntropy, IsNanForARowWithNanOrInfinity) {
  for (const auto bad : {nan, infinity}) {
    const auto got = cross_entropy({1, bad, 2, 1, 3, 2}, {0, 1});
    EXPECT_TRUE(std::isnan(got.losses[0]));
    EXPECT_FALSE(std::isnan(got.losses[1]));
  }
  EXPECT_TRUE(std::isnan(cross_entropy({-infinity, -infinity}, {0}).losses[0]));
}

TEST(KernelCrossEntropy, NamesTheFirstRowWhoseLabelIsOutOfRange) {
  EXPECT_EQ(cross_entropy({1, 2, 3, 4, 5, 6}, {0, 1, 2}).rows, 2u);
  EXPECT_EQ(cross_entropy({1, 2, 3, 4, 5, 6}, {0, -1, 9}).rows, 1u);
  EXPECT_EQ(cross_entropy({1, 2, 3, 4, 5, 6}, {1, 1, 0}).rows, 3u);
}

TEST(KernelSums, AreAccurateOverAMillionElements) {
  std::mt19937 rng{5};
  std::vector<float> x(1'000'003);
  double sum = 0, squares = 0, magnitude = 0;
  for (auto& each : x) {
    each = static_cast<float>(rng() % 2001) / 1000 - 0.9f;
    sum += each;
    squares += static_cast<double>(each) * each;
    magnitude += std::fabs(each);
  }
  EXPECT_NEAR(troupe::kernels().sum(x.data(), x.size()), sum, 1e-6 * magnitude);
  EXPECT_NEAR(troupe::kernels().sum_of_squares(x.data(), x.size()), squares,
              1e-6 * squares);
}

TEST(KernelSums, OfColumnsAreAccurateOverFiftyThousandRows) {
  constexpr std::size_t m = 50'176, n = 3;
  std::mt19937 rng{6};
  std::vector<float> g(m * n), y(m * n), sums(n, 5.0f);
  std::vector<double> plain(n), masked(n), magnitude(n);
  for (std::size_t i = 0; i < m * n; ++i) {
    g[i] = static_cast<float>(rng() % 1001) / 1000 - 0.3f;
    y[i] = rng() % 2 ? 0.0f : 1.0f;
    plain[i % n] += g[i];
    masked[i % n] += y[i] > 0 ? g[i] : 0;
    magnitude[i % n] += std::fabs(g[i]);
  }
  const auto& k = troupe::kernels();
  k.column_sums(g.data(), m, n, n, sums.data(), false);
  for (std::size_t j = 0; j < n; ++j)
    EXPECT_NEAR(sums[j], plain[j], 2e-6 * magnitude[j]);
  k.masked_column_sums(g.data(), y.data(), m, n, n, sums.data(), true);
  for (std::size_t j = 0; j < n; ++j)
    EXPECT_NEAR(sums[j], plain[j] + masked[j], 4e-6 * magnitude[j]);
  for (std::size_t i = 0; i < m * n; ++i)
    ASSERT_TRUE(y[i] > 0 || g[i] == 0);
}

} // namespace
