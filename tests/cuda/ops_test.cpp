#include "card.hpp"
#include "troupe/tensors/detail/op_check_cases.hpp"
#include "troupe/tensors/op_check.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/concat.hpp"
#include "troupe/tensors/ops/conv2d.hpp"
#include "troupe/tensors/ops/conv2d_max_pool.hpp"
#include "troupe/tensors/ops/dense.hpp"
#include "troupe/tensors/ops/dropout.hpp"
#include "troupe/tensors/ops/embedding_lookup.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/tensors/ops/to_device.hpp"
#include "troupe/tensors/ops/unary.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace {

using namespace troupe;
using namespace troupe::test;

class OpsOnACard : public OnACard,
                   public ::testing::WithParamInterface<const op*> {};

TEST_P(OpsOnACard, AgreeWithTheReference) {
  const auto& definition = *GetParam();
  if (&definition == &ops::to_device) // its target is the CPU
    GTEST_SKIP();
  for (const auto& failure : check_op(definition, card))
    ADD_FAILURE() << failure;
}

TEST_P(OpsOnACard, HaveKernelsForFloat32) {
  const auto& definition = *GetParam();
  if (definition.is_reshape || definition.view)
    GTEST_SKIP() << "the op has no kernels";
  const auto* const found = kernels_on(card, definition, dtype::float32);
  ASSERT_TRUE(found);
  const auto* const reference = definition.find_kernels(dtype::float64);
  EXPECT_EQ(found->backward != nullptr, reference->backward != nullptr);
}

/// The same bits in every run.
TEST_P(OpsOnACard, GiveTheSameBitsAgain) {
  const auto& definition = *GetParam();
  if (&definition == &ops::to_device)
    GTEST_SKIP();
  for (std::size_t i = 0; i < definition.cases.size(); ++i) {
    const detail::tried_op tried{&definition, i, card};
    for (const auto type : tried.types()) {
      const auto in = detail::draw(tried, type);
      detail::run_of_op one{tried, in};
      const auto gy = one.draw_gradients(90);
      for (int again = 0; again < 5; ++again) {
        detail::run_of_op other{tried, in};
        for (std::size_t k = 0; k < one.call.out.size(); ++k)
          EXPECT_TRUE(same_bits(one.call.out[k], other.call.out[k]))
            << tried.description();
        if (!tried.differentiable() || !is_float(type))
          continue;
        const auto left = one.backward(gy), right = other.backward(gy);
        for (std::size_t k = 0; k < left.size(); ++k)
          EXPECT_TRUE(same_bits(left[k], right[k])) << tried.description();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpsOnACard, ::testing::ValuesIn(all_ops()),
                         [](const auto& info) {
                           return std::string{info.param->name};
                         });

/// Draws values of [-1, 1), all different.
tensor spread(const shape& dims, float step = 0.37f) {
  tensor out{dims};
  float x = 0.1f;
  for (auto& one : out.mutable_data<float>()) {
    x += step;
    one = x = x - 2 * std::floor((x + 1) / 2);
  }
  return out;
}

/// Draws values of which some are denormal, and others become so if they are
/// added or multiplied.
tensor with_denormals(dtype type, float step) {
  const auto exponent = type == dtype::float64 ? -1021 : -125;
  auto out = spread({1000}, step).as(type);
  for (std::size_t i = 0; i < 40; ++i) {
    const auto power = exponent - static_cast<int>(i % 4);
    if (type == dtype::float64)
      out.mutable_data<double>()[i] *= std::ldexp(1.0, power);
    else
      out.mutable_data<float>()[i] *= std::ldexp(1.0f, power);
  }
  return out;
}

/// Elementwise arithmetic has the bits of the CPU, which flushes denormals to
/// zero. Quotients of two denormals are NaN, whose bits depend on the
/// processor.
TEST_F(OnACard, ArithmeticHasTheBitsOfTheCpu) {
  for (const auto type : {dtype::float32, dtype::float64}) {
    const auto a = with_denormals(type, 0.37f), b = with_denormals(type, 0.73f);
    for (const auto fn : {add, subtract, multiply})
      EXPECT_TRUE(same_bits(fn(a.to(card), b.to(card)), fn(a, b)))
        << to_string(type);
    const auto normal = spread({1000}, 0.73f).as(type);
    EXPECT_TRUE(
      same_bits(divide(a.to(card), normal.to(card)), divide(a, normal)))
      << to_string(type);
    EXPECT_TRUE(same_bits(square(a.to(card)), square(a))) << to_string(type);
  }
}

TEST_F(OnACard, DropoutDrawsTheMaskOfTheCpu) {
  const auto x = spread({1003});
  const auto run = [&](const tensor& in) {
    current_context().random = {.seed = 5, .replica = 1, .step = 7, .op = 0};
    return dropout(in, 0.3f, true);
  };
  EXPECT_TRUE(same_bits(run(x.to(card)), run(x)));
}

/// The elements are integers, and so small that all sums are exact.
TEST_F(OnACard, GradientsOfTheWeightsOfOneChannelAreExact) {
  struct extents {
    std::int64_t n, h, w, k, co;
    padding pad;
  };
  const auto integers = [](const shape& dims, int step) {
    tensor out{dims};
    auto i = 0;
    for (auto& one : out.mutable_data<float>())
      one = static_cast<float>((i++ * step) % 7 - 3);
    return out;
  };
  for (const auto& e : {extents{1, 5, 5, 5, 1, padding::valid},
                        extents{3, 9, 11, 3, 40, padding::same},
                        extents{2, 28, 28, 5, 32, padding::same},
                        extents{1, 3, 70, 3, 33, padding::valid},
                        extents{700, 12, 13, 5, 6, padding::same}}) {
    const auto x = integers({e.n, e.h, e.w, 1}, 5),
               w = integers({e.k, e.k, 1, e.co}, 3), b = tensor::zeros({e.co});
    const auto gradient_on = [&](const device& on) {
      tape recording;
      const auto at = recording.watch(w.to(on));
      const auto y =
        conv2d(x.to(on), at, b.to(on), conv2d_options{1, 1, e.pad});
      return recording.gradient(reduce_sum(y * integers(y.dims(), 3).to(on)),
                                tensors{at})[0];
    };
    EXPECT_TRUE(same_bits(gradient_on(card), gradient_on({})))
      << e.n << " images, " << e.k << " x " << e.k << ", " << e.co;
  }
}

/// The result of conv2d_max_pool, and the gradients of its inputs.
struct pooled {
  tensor y;
  tensors gradients;
};

pooled run_conv_pool(const device& on, const tensors& in,
                     const conv_pool_options& options, bool wants_x,
                     const std::function<tensor(const shape&)>& draw) {
  tape recording;
  const auto x = wants_x ? recording.watch(in[0].to(on)) : in[0].to(on),
             w = recording.watch(in[1].to(on)),
             b = recording.watch(in[2].to(on));
  const auto y = conv2d_max_pool(x, w, b, options);
  const auto loss = reduce_sum(y * draw(y.dims()).to(on));
  return {y, wants_x ? recording.gradient(loss, tensors{w, b, x})
                     : recording.gradient(loss, tensors{w, b})};
}

/// The elements are integers, and so small that all sums are exact.
TEST_F(OnACard, PooledConvolutionsOfOneChannelAreExact) {
  struct extents {
    std::int64_t n, h, w, k, co;
    padding pad;
  };
  const auto integers = [](const shape& dims, int step, int values) {
    tensor out{dims};
    auto i = 0;
    for (auto& one : out.mutable_data<float>())
      one = static_cast<float>((i++ * step) % values - values / 2);
    return out;
  };
  for (const auto& e : {extents{1, 5, 5, 3, 1, padding::same},
                        extents{3, 9, 11, 3, 40, padding::same},
                        extents{2, 28, 28, 5, 32, padding::same},
                        extents{1, 7, 70, 3, 33, padding::valid},
                        extents{700, 12, 13, 5, 6, padding::same},
                        extents{2, 30, 230, 5, 70, padding::same}})
    for (const auto f : {activation::none, activation::relu}) {
      const tensors in{integers({e.n, e.h, e.w, 1}, 5, 11),
                       integers({e.k, e.k, 1, e.co}, 3, 5),
                       integers({e.co}, 2, 5)};
      const auto run = [&](const device& on) {
        return run_conv_pool(
          on, in, {{1, 1, e.pad, f}, {}}, false,
          [&](const shape& dims) { return integers(dims, 3, 5); });
      };
      const auto found = run(card), expected = run({});
      EXPECT_TRUE(same_bits(found.y, expected.y)) << e.w << ", " << e.co;
      for (std::size_t i = 0; i < 2; ++i)
        EXPECT_TRUE(same_bits(found.gradients[i], expected.gradients[i]))
          << e.w << ", " << e.co << ", gradient " << i;
    }
}

/// As a tensor of the CPU does: the first NaN of a window is its maximum.
TEST_F(OnACard, PooledConvolutionsKeepNaN) {
  const float nan = std::nanf("");
  for (const std::int64_t channels : {1, 3}) {
    auto x = spread({1, 8, 8, channels});
    x.mutable_data<float>()[std::size_t(27 * channels)] = nan;
    const tensors in{x, spread({3, 3, channels, 4}), spread({4})};
    const conv_pool_options options{{1, 1, padding::same, activation::relu},
                                    {}};
    const auto run = [&](const device& on) {
      return run_conv_pool(on, in, options, false,
                           [](const shape& dims) { return spread(dims); })
        .y.to({});
    };
    const auto found = run(card), expected = run({});
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(std::isnan(found.data<float>()[i]),
                std::isnan(expected.data<float>()[i]))
        << channels << " channels, element " << i;
  }
}

// -- large shapes, which the cases of the ops do not have ---------------------

double largest_difference(const tensor& a, const tensor& b) {
  const auto left = a.to({}).as(dtype::float64),
             right = b.to({}).as(dtype::float64);
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto x = left.data<double>()[i], y = right.data<double>()[i];
    largest = std::max(largest, std::abs(y));
    worst = std::max(worst, std::isfinite(x) ? std::abs(x - y) : 1e30);
  }
  return worst / largest;
}

/// All but the last are computed in planes. The windows of the last do not
/// cover the images. For wide images, cuDNN chooses Fourier transforms, whose
/// errors are larger.
TEST_F(OnACard, PooledConvolutionsOfSeveralChannelsAgreeWithTheCpu) {
  struct extents {
    std::int64_t n, h, w, ci, k, co;
  };
  for (const auto& e :
       {extents{3, 14, 14, 32, 5, 64}, extents{1, 2, 2, 3, 3, 1},
        extents{5, 6, 22, 2, 3, 33}, extents{1, 30, 300, 1, 5, 7},
        extents{2, 9, 13, 4, 3, 8}})
    for (const bool wants_x : {false, true}) {
      const tensors in{spread({e.n, e.h, e.w, e.ci}),
                       spread({e.k, e.k, e.ci, e.co}, 0.73f),
                       spread({e.co}, 0.31f)};
      const auto run = [&](const device& on) {
        return run_conv_pool(
          on, in, {{1, 1, padding::same, activation::relu}, {}}, wants_x,
          [](const shape& dims) { return spread(dims, 0.11f); });
      };
      const auto found = run(card), expected = run({});
      EXPECT_LE(largest_difference(found.y, expected.y), 1e-5) << e.w;
      for (std::size_t i = 0; i < found.gradients.size(); ++i)
        EXPECT_LE(largest_difference(found.gradients[i], expected.gradients[i]),
                  e.w < 300 ? 1e-4 : 1e-3)
          << e.w << ", gradient " << i;
    }
}

TEST_F(OnACard, LargeReductionsAgreeWithTheCpu) {
  const auto x = spread({300, 70, 100});
  for (const auto& over :
       {axes{}, axes{0}, axes{1}, axes{2}, axes{0, 1}, axes{1, 2}, axes{0, 2}})
    EXPECT_LE(
      largest_difference(reduce_sum(x.to(card), over), reduce_sum(x, over)),
      1e-6);
  const auto wide = spread({3, 200'000});
  EXPECT_LE(
    largest_difference(reduce_mean(wide.to(card), {1}), reduce_mean(wide, {1})),
    1e-6);
  const auto many = spread({70'000, 80});
  EXPECT_LE(
    largest_difference(reduce_sum(many.to(card), {1}), reduce_sum(many, {1})),
    1e-6);
}

/// Returns the result and all gradients of `fn`.
template <class F>
std::vector<tensor> results_on(const device& on, const std::vector<tensor>& in,
                               F fn) {
  tape recording;
  tensors watched;
  for (const auto& x : in)
    watched.push_back(recording.watch(x.to(on)));
  const auto y = fn(watched);
  auto out = recording.gradient(
    reduce_sum(y * spread(y.dims(), 0.19f).as(y.type()).to(on)), watched);
  out.push_back(y);
  return {out.begin(), out.end()};
}

/// Compares with float64 on the CPU: sums of 200,000 terms in float32 are wrong
/// by up to 1e-4 there, which depends on the processor.
template <class F>
void compare(const std::vector<tensor>& in, double bound, F fn) {
  std::vector<tensor> exact;
  for (const auto& x : in)
    exact.push_back(x.as(dtype::float64));
  const auto here = results_on({}, exact, fn), there = results_on(card, in, fn);
  for (std::size_t i = 0; i < here.size(); ++i)
    EXPECT_LE(largest_difference(there[i], here[i]), bound) << "result " << i;
}

TEST_F(OnACard, LargeLayersAgreeWithTheCpu) {
  const std::vector<tensor> in{spread({512, 784}), spread({784, 512}),
                               spread({512})};
  compare(in, 3e-5, [](const tensors& x) { return dense(x[0], x[1], x[2]); });
  // Where a sum is rounded to the other side of 0, the gradients of relu
  // differ.
  const auto with_relu = [&](const device& on) {
    return dense(in[0].to(on), in[1].to(on), in[2].to(on), activation::relu);
  };
  EXPECT_LE(largest_difference(with_relu(card), with_relu({})), 3e-5);
  const conv2d_options same{.pad = padding::same};
  compare({spread({256, 28, 28, 1}), spread({5, 5, 1, 32}), spread({32})}, 3e-5,
          [&](const tensors& x) { return conv2d(x[0], x[1], x[2], same); });
  compare({spread({256, 14, 14, 32}), spread({5, 5, 32, 64}), spread({64})},
          3e-5,
          [&](const tensors& x) { return conv2d(x[0], x[1], x[2], same); });
}

/// TF32 is used only if it is allowed, also in the backward pass.
TEST_F(OnACard, Tf32IsUsedIfItIsAllowed) {
  const conv2d_options same{.pad = padding::same};
  const auto product = [](const tensors& x) { return dense(x[0], x[1], x[2]); };
  const auto convolution = [&](const tensors& x) {
    return conv2d(x[0], x[1], x[2], same);
  };
  const auto check = [](const std::vector<tensor>& in, const auto& fn) {
    const auto exact = results_on(card, in, fn);
    const auto rounded = results_on(card, in, [&](const tensors& x) {
      const tf32_scope allowed{true};
      return fn(x);
    });
    for (const std::size_t i : {0, 1, 3}) { // the gradient of a bias is a sum
      const auto difference = largest_difference(rounded[i], exact[i]);
      EXPECT_LE(difference, 2e-3) << "result " << i;
      EXPECT_GT(difference, 1e-6) << "result " << i;
    }
  };
  check({spread({512, 784}), spread({784, 512}), spread({512})}, product);
  check({spread({64, 14, 14, 32}), spread({5, 5, 32, 64}), spread({64})},
        convolution);
}

/// If relu turned NaN into 0, as that of cuBLASLt does, a failed training would
/// have a valid loss.
TEST_F(OnACard, NaNPassesThroughDenseWithRelu) {
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto check = [&](std::int64_t rows, std::int64_t k, std::int64_t n,
                         dtype type, float bias) {
    auto x = spread({rows, k});
    const auto nan_row = rows / 2;
    x.mutable_data<float>()[std::size_t(nan_row * k)] = nan;
    auto y = dense(x.as(type).to(card), spread({k, n}).as(type).to(card),
                   tensor::full({n}, bias, type, card), activation::relu)
               .to({})
               .as(dtype::float32);
    const auto values = y.data<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(std::isnan(values[i]), std::int64_t(i) / n == nan_row)
        << to_string(type) << " [" << rows << ", " << k << "] x [" << k << ", "
        << n << "], bias " << bias << ", element " << i << " is " << values[i];
  };
  for (const bool tf32 : {false, true}) {
    const tf32_scope allowed{tf32};
    for (const auto type : {dtype::float32, dtype::bfloat16, dtype::float64})
      for (const float bias : {0.0f, -0.5f})
        for (const std::int64_t n : {5, 10, 64, 512}) {
          check(3, 8, n, type, bias);
          check(64, 784, n, type, bias);
          check(1000, 128, n, type, bias);
        }
  }
}

TEST_F(OnACard, ALabelOutOfRangeIsAnErrorOfTheNextCopyToTheHost) {
  const auto logits = spread({3, 10}).to(card);
  const auto labels = tensor::of<std::int32_t>({3}, {1, 12, 2}).to(card);
  const auto losses = softmax_cross_entropy(logits, labels);
  EXPECT_EQ(error_of([&] { losses.to({}); }),
            "label 12 in row 1; there are 10 classes, from 0");
  // Once, and the device can be used further.
  const auto values = losses.to({});
  EXPECT_TRUE(std::isnan(values.data<float>()[1]));
  EXPECT_TRUE(std::isfinite(values.data<float>()[2]));
}

TEST_F(OnACard, AnIdOutOfRangeIsAnErrorOfTheNextCopyToTheHost) {
  const auto rows = embedding_lookup(
    spread({4, 2}).to(card), tensor::of<std::int64_t>({2}, {3, -1}).to(card));
  EXPECT_EQ(error_of([&] { rows.to({}); }),
            "embedding_lookup: id 1 is -1, but the table has 4 rows");
}

/// A loss that depends on such a row is NaN, so `fit` makes no update.
TEST_F(OnACard, TheRowOfAnIdOutOfRangeIsNan) {
  for (const auto type : {dtype::float32, dtype::float64, dtype::bfloat16})
    for (const std::int64_t row_size : {3, 16}) { // copied by element, packed
      const auto rows =
        embedding_lookup(tensor::full({4, row_size}, 1, type, card),
                         tensor::of<std::int64_t>({3}, {3, 4, 0}).to(card));
      EXPECT_NE(error_of([&] { rows.to({}); }), "no error");
      const auto found = rows.to({}).as(dtype::float64);
      const auto values = found.data<double>();
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(std::isnan(values[i]), std::int64_t(i) / row_size == 1)
          << to_string(type) << ", element " << i << " is " << values[i];
    }
}

TEST_F(OnACard, TensorsOnTwoDevicesAreAnErrorThatNamesBoth) {
  const auto a = spread({3}).to(card), b = spread({3});
  EXPECT_EQ(error_of([&] { add(a, b); }),
            "add: input 1, float32[3], is on cpu:0, but input 0, float32[3], "
            "is on cuda:0; copy one of them with to()");
}

} // namespace
