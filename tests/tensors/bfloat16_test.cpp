#include "op_cases.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/conv2d_max_pool.hpp"
#include "troupe/tensors/ops/dense.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/tape.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string_view>

namespace troupe {
namespace {

std::uint16_t bits_of(float x) {
  return bfloat16{x}.bits;
}

TEST(Bfloat16, HasAllItsValuesInFloat) {
  for (std::uint32_t bits = 0; bits < 0x1'0000; ++bits) {
    bfloat16 x;
    x.bits = static_cast<std::uint16_t>(bits);
    const float wide = x;
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(float(bfloat16{wide})));
    else
      ASSERT_EQ(bits_of(wide), bits);
  }
}

// One unit in the last place of 1 is 2^-7.
TEST(Bfloat16, RoundsToTheNearestValueAndTiesToEven) {
  constexpr std::uint16_t one = 0x3f80;
  EXPECT_EQ(bits_of(1), one);
  EXPECT_EQ(bits_of(1 + 0x1p-8f), one);         // a tie, down to even
  EXPECT_EQ(bits_of(1 + 3 * 0x1p-8f), one + 2); // a tie, up to even
  EXPECT_EQ(bits_of(1 + 0x1p-8f + 0x1p-23f), one + 1);
  EXPECT_EQ(bits_of(-1 - 0x1p-8f), 0x8000 | one);
  EXPECT_EQ(bits_of(3.14159265f), 0x4049);
  EXPECT_EQ(bits_of(std::numeric_limits<float>::max()), 0x7f80); // infinity
  EXPECT_EQ(bits_of(-0.0f), 0x8000);
}

// Rounded to float first, 1 + 2^-8 + 2^-40 is a tie.
TEST(Bfloat16, RoundsADoubleOnce) {
  EXPECT_EQ(bfloat16{1 + 0x1p-8 + 0x1p-40}.bits, 0x3f81);
  EXPECT_EQ(bfloat16{1 + 3 * 0x1p-8 - 0x1p-40}.bits, 0x3f81);
  EXPECT_EQ(bfloat16{-1 - 0x1p-8 - 0x1p-40}.bits, 0xbf81);
  EXPECT_EQ(bfloat16{1e300}.bits, 0x7f80);
  EXPECT_EQ(bfloat16{0x1p-200}.bits, 0);
  EXPECT_TRUE(std::isnan(float(bfloat16{std::nan("")})));
}

TEST(Bfloat16, ANaNWithLowBitsOnlyRemainsANaN) {
  EXPECT_TRUE(std::isnan(float(bfloat16{std::bit_cast<float>(0x7f80'0001u)})));
}

TEST(Bfloat16, ATensorConvertsItsElements) {
  const auto x = tensor::of<float>({3}, {1 + 0x1p-8f, -2.5f, 1e9f});
  const auto y = x.as(dtype::bfloat16);
  EXPECT_EQ(y.bytes(), 6u);
  EXPECT_EQ(float(y.data<bfloat16>()[0]), 1);
  EXPECT_EQ(y.as(dtype::int32).data<std::int32_t>()[1], -2);
  EXPECT_EQ(y.as(dtype::float64).data<double>()[2], 998'244'352.0);
  EXPECT_EQ(to_string(y.spec()), "bfloat16[3]");
  EXPECT_EQ(
    tensor::full({}, 0.5, dtype::bfloat16).as(dtype::float32).item<float>(),
    0.5f);
}

// -- ops ----------------------------------------------------------------------

class OpInBfloat16 : public ::testing::TestWithParam<tried_op> {};

/// The ops that run the kernels for float32. Those of others are compared with
/// the reference, as the kernels for any dtype are.
std::vector<tried_op> ops_without_own_kernels() {
  auto out = op_grid();
  std::erase_if(out, [](const tried_op& x) {
    return x.definition->find_kernels(dtype::bfloat16) != nullptr;
  });
  return out;
}

std::vector<tensor> as_type(const std::vector<tensor>& list, dtype from,
                            dtype to) {
  std::vector<tensor> out;
  for (const auto& x : list)
    out.push_back(x && x.type() == from ? x.as(to) : x);
  return out;
}

struct traced {
  std::vector<tensor> out, gradients;
};

/// Returns the outputs of an op, and the gradients of their sum.
traced run_traced(const tried_op& x, const std::vector<tensor>& in) {
  const auto& definition = *x.definition;
  tape t;
  std::vector<tensor> watched = in;
  std::vector<tensor> leaves;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (definition.input(i).differentiable && is_float(in[i].type()))
      leaves.push_back(watched[i] = t.watch(in[i]));
  traced out;
  const auto results = apply_all(definition, watched, x.tested_case().options);
  for (const auto& one : results)
    out.out.push_back(one.detach());
  const auto gradients = t.gradient(results[0], leaves);
  out.gradients.assign(gradients.begin(), gradients.end());
  return out;
}

// Without kernels for bfloat16, a call is the call in float32 with converted
// inputs, and its results and gradients are rounded.
TEST_P(OpInBfloat16, HasTheRoundedResultsOfFloat32) {
  const auto& x = GetParam();
  const auto in =
    as_type(draw(x, dtype::float32), dtype::float32, dtype::bfloat16);
  const auto narrow = run_traced(x, in);
  const auto wide = run_traced(x, as_type(in, dtype::bfloat16, dtype::float32));
  for (std::size_t k = 0; k < wide.out.size(); ++k)
    EXPECT_TRUE(same_bits(narrow.out[k], wide.out[k].as(narrow.out[k].type())))
      << "output " << k;
  ASSERT_EQ(narrow.gradients.size(), wide.gradients.size());
  // Gradients may depend on the output, which was rounded.
  const bool depends = x.definition->saves_outputs;
  for (std::size_t i = 0; i < wide.gradients.size(); ++i) {
    ASSERT_EQ(narrow.gradients[i].type(), dtype::bfloat16);
    if (depends)
      continue;
    EXPECT_TRUE(
      same_bits(narrow.gradients[i], wide.gradients[i].as(dtype::bfloat16)))
      << "gradient " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, OpInBfloat16,
                         ::testing::ValuesIn(ops_without_own_kernels()),
                         name_of);

/// Runs the kernels for float32 on converted tensors, and rounds each result
/// once.
void forward_in_float32(op_call& c) {
  const auto* const kernels = c.definition->find_kernels(dtype::float32);
  std::vector<tensor> in{c.in.begin(), c.in.end()};
  in = as_type(in, dtype::bfloat16, dtype::float32);
  op_call wide = c;
  wide.type = dtype::float32;
  wide.in = in;
  for (auto& x : wide.out)
    x = tensor{{x.dims(), dtype::float32}};
  kernels->forward(wide);
  for (std::size_t k = 0; k < c.out.size(); ++k)
    c.out[k].copy_from(wide.out[k].as(dtype::bfloat16));
  c.saved = wide.saved;
}

void backward_in_float32(op_call& c) {
  const auto* const kernels = c.definition->find_kernels(dtype::float32);
  const auto widen = [](auto& list) {
    for (auto& x : list)
      if (x && x.type() == dtype::bfloat16)
        x = x.as(dtype::float32);
  };
  std::vector<tensor> in{c.in.begin(), c.in.end()},
    gradients{c.grad_in.begin(), c.grad_in.end()};
  op_call wide = c;
  wide.type = dtype::float32;
  widen(in);
  widen(gradients);
  widen(wide.out);
  widen(wide.grad_out);
  wide.in = in;
  wide.grad_in = gradients;
  kernels->backward(wide);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i])
      c.grad_in[i].copy_from(gradients[i].as(dtype::bfloat16));
}

/// So a device may have kernels of its own with these results: the bounds of
/// the cases allow for the roundings.
TEST(Bfloat16, ResultsThatAreRoundedOncePassTheChecks) {
  std::size_t checked = 0;
  for (const auto* const one : all_ops()) {
    const auto* const reference = one->find_kernels(dtype::float32);
    if (!reference || one->is_reshape || one->view
        || one->find_kernels(dtype::bfloat16))
      continue;
    auto rounding = *one;
    std::vector<op_kernels> kernels{one->kernels.begin(), one->kernels.end()};
    kernels.push_back({dtype::bfloat16, forward_in_float32,
                       reference->backward ? backward_in_float32 : nullptr});
    rounding.kernels = kernels;
    for (std::size_t i = 0; i < rounding.cases.size(); ++i)
      for (const auto check :
           {detail::check_kernels, detail::check_accumulation})
        for (const auto& failure : check({&rounding, i}))
          ADD_FAILURE() << rounding.name << ", case " << i << ": " << failure;
    ++checked;
  }
  EXPECT_GE(checked, 18u);
}

// cmake/Tests.cmake runs the tests also with a limit for oneDNN.
TEST(Bfloat16, ProductsHaveKernelsWhereTheProcessorHasInstructions) {
#if defined(__x86_64__)
  const char* const limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  const bool is_limited = limit && std::string_view{limit} == "AVX512_CORE";
  const bool expected = !is_limited && __builtin_cpu_supports("avx512bf16");
  for (const auto* product :
       {&ops::matmul, &ops::dense, &ops::conv2d, &ops::conv2d_max_pool})
    EXPECT_EQ(product->find_kernels(dtype::bfloat16) != nullptr, expected)
      << product->name;
  if (!expected)
    GTEST_SKIP() << "there are no instructions for products of bfloat16, so "
                    "only the converted ones are tested";
#endif
}

// The sum of 1 and 512 times 2^-10 is 1.5. A sum in bfloat16 would remain 1.
TEST(Bfloat16, ProductsAreAddedInFloat32) {
  auto x = tensor::full({1, 513}, 0x1p-10, dtype::bfloat16);
  x.mutable_data<bfloat16>()[0] = 1;
  const auto ones = tensor::full({513, 1}, 1, dtype::bfloat16);
  EXPECT_EQ(float(matmul(x, ones).data<bfloat16>()[0]), 1.5f);
}

// The sum 1 + 2^-8 + 2^-18 is rounded up. With the second term rounded first,
// it would be 1 + 2^-8, a tie that is rounded down.
TEST(Bfloat16, ACastAddsToAGradientBeforeItRounds) {
  tape t;
  const auto x = t.watch(tensor::full({1}, 1, dtype::bfloat16));
  const auto cast = x.as(dtype::float32) * tensor::full({1}, 0x1p-8 + 0x1p-18);
  const auto other = (x * tensor::full({1}, 1, dtype::bfloat16));
  const auto loss = reduce_sum(cast) + reduce_sum(other).as(dtype::float32);
  const auto gradient = t.gradient(loss, tensors{x});
  EXPECT_EQ(float(gradient[0].data<bfloat16>()[0]), 1 + 0x1p-7f);
}

// 1 + 2^-7 twice and 1, which is exact.
TEST(Bfloat16, ATapeAddsTheGradientsOfSeveralUses) {
  tape t;
  const auto x = t.watch(tensor::full({}, 1, dtype::bfloat16));
  auto sum = x * 1.0;
  for (int i = 1; i < 3; ++i)
    sum = sum + x * (1 + 0x1p-7);
  EXPECT_EQ(float(t.gradient(sum, std::array{x})[0].item<bfloat16>()),
            3.015625f);
}

TEST(Bfloat16, ACastCarriesGradientsToFloat32) {
  tape t;
  const auto w = t.watch(tensor::of<float>({1, 1}, {3}));
  const auto x = tensor::full({1, 1}, 2, dtype::bfloat16);
  const auto y = matmul(x, w.as(dtype::bfloat16));
  EXPECT_EQ(y.type(), dtype::bfloat16);
  EXPECT_EQ(float(y.data<bfloat16>()[0]), 6);
  const auto g = t.gradient(y, std::array{w});
  EXPECT_EQ(g[0].type(), dtype::float32);
  EXPECT_EQ(g[0].item<float>(), 2);
}

TEST(Bfloat16, DoesNotMixWithFloat32) {
  const auto x = tensor::full({1}, 1);
  EXPECT_THROW(add(x, x.as(dtype::bfloat16)), std::logic_error);
}

} // namespace
} // namespace troupe
