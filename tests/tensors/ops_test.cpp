#include "op_cases.hpp"
#include "troupe/tensors/ops/all.hpp"

#include <algorithm>

// Tests every op on each of its cases. Compares the float64 reference with
// central differences, and the float32 kernels with the reference. Compares
// results for inputs that are ranges of larger tensors with results for copies.
// An op that is added to the list is tested too.

namespace troupe {
namespace {

class EveryOp : public testing::TestWithParam<tried_op> {
protected:
  bool differentiable() const {
    return GetParam().definition->reference_backward != nullptr;
  }
};

/// Returns sum(weights * op(in)), in float64.
double weighted(const tried_op& x, std::vector<tensor> in,
                const tensor& weights) {
  run_of_op run{x, std::move(in)};
  const auto y = run.call.out.data<double>(), w = weights.data<double>();
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    sum += y[i] * w[i];
  return sum;
}

TEST_P(EveryOp, ReferenceGradientMatchesCentralDifferences) {
  if (GetParam().definition->is_reshape)
    return; // It has no kernel; the tests of the tape cover reshape.
  if (!differentiable())
    GTEST_SKIP() << GetParam().definition->name << " is not differentiable";
  auto in = draw(GetParam(), dtype::float64);
  run_of_op run{GetParam(), in};
  const auto gy = draw_like(run.call.out.spec(), 77);
  const auto grads = run.backward(gy);
  std::mt19937 rng{GetParam().seed()};
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!grads[i])
      continue;
    const auto size = in[i].size();
    for (std::size_t n = 0; n < std::min<std::size_t>(size, 24); ++n) {
      const auto element = size <= 24 ? n : rng() % size;
      constexpr double h = 1e-6;
      double side[2];
      for (int s = 0; s < 2; ++s) {
        auto moved = in;
        moved[i] = in[i].clone();
        moved[i].mutable_data<double>()[element] += s ? h : -h;
        side[s] = weighted(GetParam(), moved, gy);
      }
      const double got = grads[i].data<double>()[element];
      const double slope = (side[1] - side[0]) / (2 * h);
      EXPECT_NEAR(got, slope, 1e-6 * std::max(1.0, std::abs(slope)) + 1e-7)
        << "input " << i << ", element " << element;
    }
  }
}

/// Returns the maximum difference, relative to the largest magnitude in
/// `right`.
double error_of(const tensor& left, const tensor& right) {
  double largest = 1e-30, worst = 0;
  const auto wide = left.as(dtype::float64);
  const auto a = wide.data<double>(), b = right.data<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    worst = std::max(worst, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : 1e30);
  }
  return worst / largest;
}

TEST_P(EveryOp, KernelsAgreeWithTheReferenceWithinTheStatedBound) {
  const auto& x = GetParam();
  run_of_op narrow{x, draw(x, dtype::float32)};
  run_of_op wide{x, draw(x, dtype::float64)};
  EXPECT_LE(error_of(narrow.call.out, wide.call.out), x.tested_case().bound);
  if (x.definition->is_reshape || !differentiable())
    return;
  const auto gy = draw_like(narrow.call.out.spec(), 78);
  const auto got = narrow.backward(gy);
  const auto want = wide.backward(gy.as(dtype::float64));
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i]) {
      EXPECT_LE(error_of(got[i], want[i]), x.tested_case().bound)
        << "input " << i;
    }
}

TEST_P(EveryOp, AccumulatesGradients) {
  const auto& x = GetParam();
  if (x.definition->is_reshape || !differentiable())
    return;
  for (const auto type : {dtype::float32, dtype::float64}) {
    run_of_op run{x, draw(x, type)};
    const auto gy = draw_like(run.call.out.spec(), 79);
    const auto fresh = run.backward(gy), added = run.backward(gy, ~0u, true);
    for (std::size_t i = 0; i < fresh.size(); ++i)
      for (std::size_t at = 0; fresh[i] && at < fresh[i].size(); ++at) {
        const auto f = fresh[i].as(dtype::float64).data<double>()[at];
        const auto a = added[i].as(dtype::float64).data<double>()[at];
        ASSERT_NEAR(a, f + 1, 1e-5 * (std::abs(f) + 1)) << "input " << i;
        at += fresh[i].size() / 100; // Samples a large gradient.
      }
  }
}

TEST_P(EveryOp, ComputesOnlyRequestedGradients) {
  const auto& x = GetParam();
  if (x.definition->is_reshape || !differentiable())
    return;
  run_of_op run{x, draw(x, dtype::float32)};
  const auto gy = draw_like(run.call.out.spec(), 80);
  const auto all_gradients = run.backward(gy);
  for (std::size_t i = 0; i < all_gradients.size(); ++i) {
    if (!all_gradients[i])
      continue;
    const auto one = run.backward(gy, 1u << i);
    EXPECT_TRUE(same_bits(one[i], all_gradients[i])) << "input " << i;
  }
}

/// Returns a copy that begins 4 bytes after a multiple of 64.
tensor displaced(const tensor& x) {
  tensor roomy{shape{std::int64_t(x.size()) + 1}, x.type()};
  auto out = roomy.range(1, x.size() + 1).reshaped(x.dims());
  out.copy_from(x);
  return out;
}

TEST_P(EveryOp, ASliceHasTheBitsOfACopy) {
  const auto& x = GetParam();
  const auto in = draw(x, dtype::float32);
  std::vector<tensor> moved;
  for (const auto& t : in)
    moved.push_back(displaced(t));
  run_of_op a{x, in}, b{x, moved};
  EXPECT_TRUE(same_bits(a.call.out, b.call.out));
  if (x.definition->is_reshape || !differentiable())
    return;
  const auto gy = draw_like(a.call.out.spec(), 81);
  const auto ga = a.backward(gy), gb = b.backward(gy);
  for (std::size_t i = 0; i < ga.size(); ++i)
    EXPECT_TRUE(!ga[i] || same_bits(ga[i], gb[i])) << "input " << i;
}

INSTANTIATE_TEST_SUITE_P(Grid, EveryOp, testing::ValuesIn(op_grid()), name_of);

TEST(OpList, NamesAreUniqueAndEveryOpHasCases) {
  std::vector<std::string_view> names;
  for (const auto* x : ops::built_in) {
    names.push_back(x->name);
    EXPECT_FALSE(x->cases.empty()) << x->name;
    EXPECT_FALSE(x->formula.empty()) << x->name;
    EXPECT_EQ(find_op(x->name), x);
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_EQ(find_op("no such op"), nullptr);
}

} // namespace
} // namespace troupe
