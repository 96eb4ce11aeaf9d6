#include "troupe/tensors/context.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/dense.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/reshape.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/tensors/ops/unary.hpp"
#include "troupe/tensors/tape.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {
namespace {

/// Returns the parameters `w` [2] = {3, 5} and `unused` [1].
parameters two_parameters() {
  parameters p{{{"w", {2}}, {"unused", {1}}}};
  p.values().mutable_data<float>()[0] = 3;
  p.values().mutable_data<float>()[1] = 5;
  return p;
}

TEST(Tape, DifferentiatesASumOfProducts) {
  tape t;
  const auto a = t.watch(tensor::of<double>({2}, {2, 3}));
  const auto b = t.watch(tensor::of<double>({2}, {5, 7}));
  const auto y = reduce_sum(a * b + a);
  const auto g = t.gradient(y, std::array{a, b});
  EXPECT_EQ(g[0].data<double>()[0], 6);
  EXPECT_EQ(g[0].data<double>()[1], 8);
  EXPECT_EQ(g[1].data<double>()[0], 2);
  EXPECT_EQ(g[1].data<double>()[1], 3);
}

TEST(Tape, DifferentiatesOperatorsWithANumberOnTheLeft) {
  const auto result_and_gradient = [](auto fn) {
    tape t;
    const auto x = t.watch(tensor::of<double>({1}, {4}));
    const auto y = fn(x);
    return std::pair{y.template item<double>(),
                     t.gradient(y, std::array{x})[0].template item<double>()};
  };
  using result = std::pair<double, double>;
  EXPECT_EQ(result_and_gradient([](auto& x) { return 2 - x; }), result(-2, -1));
  EXPECT_EQ(result_and_gradient([](auto& x) { return 2 + x; }), result(6, 1));
  EXPECT_EQ(result_and_gradient([](auto& x) { return 2 * x; }), result(8, 2));
  EXPECT_EQ(result_and_gradient([](auto& x) { return 2 / x; }),
            result(0.5, -0.125));
  EXPECT_EQ(result_and_gradient([](auto& x) { return -x; }), result(-4, -1));
}

TEST(Tape, AddsTheGradientsOfAValueThatIsUsedTwiceInOneOp) {
  tape t;
  const auto x = t.watch(tensor::of<double>({3}, {1, 2, 3}));
  const auto g = t.gradient(x * x, std::array{x});
  EXPECT_EQ(g[0].data<double>()[2], 6);
}

TEST(Tape, WritesGradientsToTheFlatBufferOfTheVariables) {
  auto p = two_parameters();
  auto gradients = p.gradients();
  gradients.mutable_data<float>()[0] = 99; // Will be overwritten.
  gradients.mutable_data<float>()[p.offset(1)] = 99;
  tape t;
  const auto w = p.variables()[0].value();
  t.gradient_into_variables(w * w, p.variables());
  EXPECT_EQ(gradients.data<float>()[0], 6);
  EXPECT_EQ(gradients.data<float>()[1], 10);
  EXPECT_EQ(gradients.data<float>()[p.offset(1)], 0);
}

TEST(Tape, GradientOfAnUnusedVariableIsZero) {
  auto p = two_parameters();
  tape t;
  const auto g = t.gradient(p.variables()[0].value() * 1.0, p.variables());
  EXPECT_EQ(g[1].item<float>(), 0);
}

TEST(Tape, GradientOfAVariableWithoutAPathToTheLossIsZero) {
  auto p = two_parameters();
  tape t;
  const auto dead_end = p.variables()[1].value() * 2.0;
  const auto g = t.gradient(p.variables()[0].value() * 1.0, p.variables());
  EXPECT_EQ(g[1].item<float>(), 0);
}

TEST(Tape, CallsTheHookOnceForEachGradientLastLayerFirst) {
  parameters p{
    {{"a", {4, 3}}, {"a/bias", {3}}, {"b", {3, 2}}, {"b/bias", {2}}}};
  const auto& v = p.variables();
  tape t;
  const auto x = tensor::full({5, 4}, 1);
  const auto h = dense(x, v[0].value(), v[1].value(), activation::relu);
  const auto y = dense(h, v[2].value(), v[3].value());
  std::vector<std::size_t> order;
  t.gradient_into_variables(y, v, [&](std::size_t i) { order.push_back(i); });
  ASSERT_EQ(order.size(), 4u);
  EXPECT_LT(std::ranges::find(order, 2), std::ranges::find(order, 0));
  EXPECT_LT(std::ranges::find(order, 3), std::ranges::find(order, 1));
}

TEST(Tape, CallsTheHookAfterTheLastUseOfAVariable) {
  auto p = two_parameters();
  tape t;
  const auto w = p.variables()[0].value();
  const auto y = exp(w * 0.0) + w * 2.0; // w is used by two ops.
  float at_hook = 0;
  t.gradient_into_variables(
    y, std::span{p.variables()}.first(1),
    [&](std::size_t) { at_hook = p.gradients().data<float>()[0]; });
  EXPECT_EQ(at_hook, 2);
}

TEST(Tape, PassesAGradientThroughReshapeWithoutACopy) {
  tape t;
  const auto x = t.watch(tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const auto y = reshape(x, shape{6});
  EXPECT_TRUE(y.shares_storage_with(x));
  const auto g = t.gradient(y * y, std::array{x});
  EXPECT_EQ(g[0].dims(), (shape{2, 3}));
  EXPECT_EQ(g[0].data<double>()[5], 12);
}

/// For each call of a backward kernel, in order: whether it could use TF32.
std::vector<bool> allowed_backward;

TEST(Tape, TheBackwardPassMayUseTf32IfTheForwardPassMight) {
  auto own = ops::negate;
  const std::array kernels{
    op_kernels{dtype::float32, own.find_kernels(dtype::float32)->forward,
               [](op_call& c) {
                 allowed_backward.push_back(current_context().allows_tf32);
                 ops::negate.find_kernels(dtype::float32)->backward(c);
               }},
    *own.find_kernels(dtype::float64)};
  own.kernels = kernels;
  allowed_backward.clear();
  tape t;
  const auto x = t.watch(tensor::of<float>({2}, {1, 2}));
  tensor y;
  {
    const tf32_scope allowed{true};
    y = apply(own, {x});
    const tf32_scope forbidden{false};
    y = apply(own, {y});
  }
  y = apply(own, {y});
  EXPECT_FALSE(current_context().allows_tf32);
  const tf32_scope allowed{true};
  t.gradient(y, tensors{x});
  EXPECT_EQ(allowed_backward, (std::vector{false, false, true}));
  EXPECT_TRUE(current_context().allows_tf32);
}

TEST(Tape, FreesIntermediateValuesDuringBackward) {
  auto p = two_parameters();
  tape t;
  constexpr std::size_t layers = 8, large = 1 << 18; // 2^18 floats: 1 MiB.
  const auto before = memory::used().live;
  tensor h = p.variables()[0].value() + tensor::zeros({large / 2, 2});
  for (std::size_t i = 1; i < layers; ++i)
    h = exp(h * 0.0);
  const auto recorded = memory::used().live - before;
  std::size_t at_end = 0;
  h = reduce_sum(h);
  t.gradient_into_variables(
    h, std::span{p.variables()}.first(1),
    [&](std::size_t) { at_end = memory::used().live - before; });
  EXPECT_GT(recorded, layers * large * sizeof(float));
  EXPECT_LT(at_end, 4 * large * sizeof(float));
}

TEST(Tape, OnlyTheInnermostRecordsAndASecondRequestFails) {
  tape outer;
  const auto x = outer.watch(tensor::of<double>({1}, {3}));
  {
    tape inner;
    const auto z = inner.watch(tensor::of<double>({1}, {4}));
    EXPECT_EQ(inner.gradient(z * z, std::array{z})[0].item<double>(), 8);
    EXPECT_THROW(inner.gradient(z, std::array{z}), std::logic_error);
    EXPECT_EQ(tape::recording(), &outer);
  }
  EXPECT_EQ(outer.gradient(x * x, std::array{x})[0].item<double>(), 6);
}

TEST(Tape, ReportsASecondRequest) {
  auto p = two_parameters();
  tape t;
  const auto y = p.variables()[0].value() * 2.0;
  t.gradient(y, p.variables());
  try {
    t.gradient(y, p.variables());
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_EQ(
      std::string{error.what()},
      "gradients of a tape were requested a second time; make a tape for "
      "each loss");
  }
}

TEST(Tape, RejectsALossThatItDidNotRecord) {
  tape t;
  const auto x = t.watch(tensor::of<double>({1}, {3}));
  EXPECT_THROW(t.gradient(tensor::of<double>({1}, {3}), std::array{x}),
               std::logic_error);
}

TEST(Tape, RejectsAVariableThatIsListedTwice) {
  auto p = two_parameters();
  tape t;
  const auto w = p.variables()[0];
  EXPECT_THROW(t.gradient(w.value() * 2.0, std::array{w, w}), std::logic_error);
  tape of_watched;
  const auto x = of_watched.watch(tensor::of<double>({1}, {3}));
  EXPECT_THROW(of_watched.gradient(x * x, std::array{x, x}), std::logic_error);
}

TEST(Tape, FollowsTheContextNotTheThread) {
  context first, two;
  auto* before = exchange_context(&first);
  {
    tape a;
    const auto x = a.watch(tensor::of<double>({1}, {3}));
    exchange_context(&two);
    {
      tape b;
      const auto z = b.watch(tensor::of<double>({1}, {5}));
      exchange_context(&first);
      const auto y = x * x; // Recorded for a, although b is newer.
      exchange_context(&two);
      EXPECT_EQ(b.gradient(z * z, std::array{z})[0].item<double>(), 10);
      exchange_context(&first);
      EXPECT_EQ(a.gradient(y, std::array{x})[0].item<double>(), 6);
      exchange_context(&two);
    }
    exchange_context(&first);
  }
  exchange_context(before);
}

TEST(Tape, ReadsTheCopyOfTheRunningReplica) {
  parameters p{{{"w", {1}}}, 2, 2};
  p.values(1).mutable_data<float>()[0] = 7;
  context second;
  second.copy_index = 1;
  const context_scope in{second};
  EXPECT_EQ(p.variables()[0].value().item<float>(), 7);
  second.copy_index = 2;
  EXPECT_THROW(p.variables()[0].value(), std::logic_error);
}

} // namespace
} // namespace troupe
