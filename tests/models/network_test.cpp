#include "troupe/models/layers.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/models/network.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace troupe::models {
namespace {

void put(const variable& to, std::initializer_list<float> values) {
  to.value().copy_from(tensor::of(to.dims(), values));
}

/// Returns a tensor of small integers that repeat with a period of 7.
tensor small_integers(const shape& dims) {
  tensor out{dims};
  auto values = out.mutable_data<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i * 5 % 7) - 3;
  return out;
}

struct built {
  explicit built(const model_description& from, std::uint64_t seed = 1)
    : net{from}, values{net.parameters()} {
    use_threads(1); // More threads cost more time than they save.
    net.initialize(values, seed);
  }

  tensor operator()(const tensor& x, const forward_options& how = {}) const {
    return net.forward(x, values.variables(), how);
  }

  network net;
  parameters values;
};

std::string refusal_of(const auto& call) {
  try {
    call();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

TEST(Network, HasTheComputedNumberOfParameters) {
  EXPECT_EQ(parameters{network{mlp()}.parameters()}.count(),
            784u * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10);
  EXPECT_EQ(parameters{network{mlp()}.parameters()}.count(), 669'706u);
  EXPECT_EQ(parameters{network{lenet()}.parameters()}.count(), 3'274'634u);
}

TEST(Network, NamesItsParametersByLayer) {
  dense named{2};
  named.name = "head";
  const network net{
    {"m",
     {4, 4, 1},
     stack(conv2d{2, 3}, sequential{stack(conv2d{3, 1}, relu{}, conv2d{1, 1})},
           flatten{}, dense{5}, named, dense{1})}};
  std::string names;
  for (const auto& spec : net.parameters())
    names += spec.name + to_string(spec.dims) + " ";
  EXPECT_EQ(names, "conv2d_1/kernel[3, 3, 1, 2] conv2d_1/bias[2] "
                   "sequential_1/conv2d_1/kernel[1, 1, 2, 3] "
                   "sequential_1/conv2d_1/bias[3] "
                   "sequential_1/conv2d_2/kernel[1, 1, 3, 1] "
                   "sequential_1/conv2d_2/bias[1] "
                   "dense_1/kernel[4, 5] dense_1/bias[5] head/kernel[5, 2] "
                   "head/bias[2] dense_3/kernel[2, 1] dense_3/bias[1] ");
}

TEST(Network, OfDenseLayersMatchesAHandComputation) {
  const built x{{"m", {2}, stack(dense{2, activation::relu}, dense{1})}};
  const auto& own = x.values.variables();
  put(own[0], {1, -2, 3, 4}); // The kernel is [[1, -2], [3, 4]].
  put(own[1], {-5, 0.5f});
  put(own[2], {2, 3});
  put(own[3], {-1});
  // The first layer maps [1, 2] to relu([2, 6.5]), and [3, 0] to relu([-2,
  // -5.5]).
  EXPECT_TRUE(same_bits(x(tensor::of<float>({2, 2}, {1, 2, 3, 0})),
                        tensor::of<float>({2, 1}, {22.5f, -1})));
}

TEST(Network, OfConvolutionAndPoolingMatchesAHandComputation) {
  const built x{
    {"m",
     {2, 2, 1},
     stack(conv2d{1, 2, padding::same}, relu{}, max_pool2d{2}, flatten{})}};
  const auto& own = x.values.variables();
  put(own[0], {1, 10, 100, 1000});
  put(own[1], {-2000});
  // The padding is one row at the bottom and one column at the right. The
  // convolution maps [[1, 2], [3, 4]] to [[4321, 402], [43, 4]] - 2000.
  EXPECT_TRUE(same_bits(x(tensor::of<float>({1, 2, 2, 1}, {1, 2, 3, 4})),
                        tensor::of<float>({1, 1}, {2321})));
}

// A convolution and a pooling that run as one op return the bits of the
// separate layers. The inputs are small integers, so that no result is rounded.
TEST(Network, FusedConvolutionAndPoolingEqualTheSeparateLayers) {
  const conv2d conv{4, 3, padding::same, activation::relu};
  const max_pool2d pool{2};
  const built x{{"m", {9, 7, 2}, stack(conv, pool)}};
  const auto kernel = small_integers({3, 3, 2, 4});
  const auto bias = small_integers({4});
  const auto& own = x.values.variables();
  own[0].value().copy_from(kernel);
  own[1].value().copy_from(bias);
  const auto images = small_integers({6, 9, 7, 2});
  EXPECT_TRUE(same_bits(
    x(images), troupe::max_pool2d(troupe::conv2d(images, kernel, bias,
                                                 conv2d_layer{conv}.options()),
                                  max_pool2d_layer{pool}.options())));
}

TEST(Network, TakesSettingsByName) {
  const built x{{"m",
                 {6, 6, 1},
                 stack(conv2d{.filters = 16, .kernel = {3, 1}, .stride = 2},
                       max_pool2d{.window = {2, 1}}, dropout{.rate = 0.5},
                       flatten{}, dense{.units = 3, .name = "head"})}};
  EXPECT_EQ(x.net.output(), (shape{3}));
  const auto& own = x.values.variables();
  EXPECT_EQ(own[0].dims(), (shape{3, 1, 1, 16}));
  EXPECT_EQ(own[2].name(), "head/kernel");
  EXPECT_EQ(own[2].dims(), (shape{1 * 3 * 16, 3}));
  const conv2d by_position{16, 3, padding::same, activation::relu};
  EXPECT_EQ(by_position.kernel, (extents_2d{3, 3}));
  EXPECT_EQ(by_position.stride, (extents_2d{1, 1}));
}

struct doubling_pool : max_pool2d_layer {
  using max_pool2d_layer::max_pool2d_layer;
  std::string_view type() const override { return "doubling_pool"; }
  tensor forward(const tensor& x, const layer_scope& scope) const override {
    return max_pool2d_layer::forward(x, scope) * 2.0;
  }
};

TEST(Network, CallsALayerThatIsDerivedFromPooling) {
  register_layer<doubling_pool>();
  const conv2d conv{1, 1};
  const built x{{"m", {2, 2, 1}, stack(conv, doubling_pool{max_pool2d{2}})}};
  const auto& own = x.values.variables();
  put(own[0], {3});
  put(own[1], {1});
  EXPECT_TRUE(same_bits(x(tensor::of<float>({1, 2, 2, 1}, {1, 2, 3, 4})),
                        tensor::of<float>({1, 1, 1, 1}, {26})));
}

TEST(Network, AnExampleHasTheSameOutputInAnyBatch) {
  const built x{{"m",
                 {9, 7, 2},
                 stack(conv2d{4, 3, padding::same, activation::relu},
                       max_pool2d{2}, flatten{}, dense{5})}};
  const auto images = small_integers({6, 9, 7, 2});
  const auto full_batch = x(images);
  ASSERT_EQ(full_batch.dims(), (shape{6, 5}));
  for (std::int64_t i = 0; i < 6; ++i) {
    const auto one = x(images.slice(i, i + 1));
    ASSERT_EQ(one.dims(), (shape{1, 5}));
    for (std::size_t j = 0; j < 5; ++j)
      EXPECT_NEAR(one.data<float>()[j],
                  full_batch.data<float>()[static_cast<std::size_t>(i) * 5 + j],
                  1e-4);
  }
}

TEST(Network, TakesAnEmptyBatch) {
  EXPECT_EQ(built{lenet()}(tensor{{0, 28, 28, 1}}).dims(), (shape{0, 10}));
  EXPECT_EQ(built{mlp()}(tensor{{0, 28, 28, 1}}).dims(), (shape{0, 10}));
}

TEST(Network, OutputShapesAreThoseOfTheLayers) {
  for (const auto pad : {padding::valid, padding::same})
    for (std::int64_t height = 5; height < 8; ++height)
      for (std::int64_t window = 1; window <= 4; ++window)
        for (std::int64_t stride = 1; stride <= 3; ++stride) {
          conv2d slide{3, window, pad};
          slide.kernel[1] = 1 + window / 2;
          slide.stride = {stride, 4 - stride};
          max_pool2d pool;
          pool.window = {window, 2};
          pool.stride = {4 - stride, stride};
          pool.padding = pad;
          for (const auto& layers : {stack(slide), stack(pool)}) {
            const built x{{"m", {height, 6, 2}, layers}};
            const auto out = x(small_integers({2, height, 6, 2}));
            EXPECT_EQ(out.dims().axes(1, 4), x.net.output());
          }
        }
}

TEST(Network, DropsInTrainingOnly) {
  const built x{{"m", {1000}, stack(dropout{0.5})}};
  const auto ones = tensor::full({1, 1000}, 1);
  EXPECT_TRUE(same_bits(x(ones), ones));
  const auto out = x(ones, {.training = true});
  const auto dropped = std::ranges::count(out.data<float>(), 0.0f);
  EXPECT_GT(dropped, 400);
  EXPECT_LT(dropped, 600);
  EXPECT_EQ(std::ranges::count(out.data<float>(), 2.0f), 1000 - dropped);
  const built almost_all{{"m", {1000}, stack(dropout{1 - 1e-12})}};
  EXPECT_TRUE(
    same_bits(almost_all(ones, {.training = true}), tensor::zeros({1, 1000})));
}

TEST(Network, NestedLayersKnowThatItIsTraining) {
  const built x{{"m", {1000}, stack(sequential{stack(relu{}, dropout{0.5})})}};
  const auto ones = tensor::full({1, 1000}, 1);
  EXPECT_TRUE(same_bits(x(ones), ones));
  EXPECT_FALSE(same_bits(x(ones, {.training = true}), ones));
}

TEST(Network, InitialValuesDependOnTheSeedOnlyAndEqualInAllCopies) {
  const network net{lenet()};
  parameters first{net.parameters(), 2, 2}, same{net.parameters()},
    second{net.parameters()};
  net.initialize(first, 7);
  net.initialize(same, 7);
  net.initialize(second, 8);
  EXPECT_TRUE(same_bits(first.values(0), same.values()));
  EXPECT_TRUE(same_bits(first.values(1), same.values()));
  EXPECT_FALSE(same_bits(first.values(0), second.values()));
}

TEST(Network, DefaultInitializersAreGlorotKernelsAndZeroBiases) {
  dense constant{3};
  constant.kernel_initializer = initializer{"zeros"};
  const built x{{"m", {50}, stack(dense{30}, constant)}, 3};
  const auto& values = x.values.variables();
  const auto limit = std::sqrt(6.0f / 80);
  const auto kernel = values[0].value();
  const auto [low, high] = std::ranges::minmax(kernel.data<float>());
  EXPECT_GE(low, -limit);
  EXPECT_LT(low, -0.98f * limit);
  EXPECT_LE(high, limit);
  EXPECT_GT(high, 0.98f * limit);
  EXPECT_TRUE(same_bits(values[1].value(), tensor::zeros({30})));
  EXPECT_TRUE(same_bits(values[2].value(), tensor::zeros({30, 3})));
}

TEST(Network, LayersOfEqualShapeHaveDifferentInitialValues) {
  const built x{{"m", {8}, stack(dense{8}, dense{8})}};
  EXPECT_FALSE(same_bits(x.values.variables()[0].value(),
                         x.values.variables()[2].value()));
}

TEST(Network, LearnsByItsGradient) {
  const built x{{"m",
                 {4, 4, 1},
                 stack(conv2d{3, 3, padding::same, activation::relu},
                       max_pool2d{2}, flatten{}, dense{4})}};
  const auto images = small_integers({8, 4, 4, 1});
  const auto labels = tensor::of<std::int32_t>({8}, {0, 1, 2, 3, 3, 2, 1, 0});
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    tape t;
    const auto losses = cross_entropy(x(images), labels);
    const auto gradients = t.gradient(losses, x.values.variables());
    last = total(losses);
    first = step == 0 ? last : first;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      auto value = x.values.variables()[i].value();
      value.copy_from(value - gradients[i] * 0.01);
    }
  }
  EXPECT_LT(last, first / 10);
  EXPECT_EQ(correct(x(images), labels), 8u);
}

TEST(Network, RejectsInputOfAnotherShapeOrDtypeAndNamesBoth) {
  const built x{mlp()};
  EXPECT_EQ(refusal_of([&] {
              x(tensor::zeros({5, 784}));
            }),
            "the model \"mlp\" takes examples of shape [28, 28, 1], but these "
            "are [784]; give other data or a model with this input");
  EXPECT_EQ(
    refusal_of([&] {
      x(tensor::zeros({28, 28, 1}));
    }),
    "the model \"mlp\" takes batches, but these inputs [28, 28, 1] have "
    "the shape of one example; reshape them to [1, 28, 28, 1]");
  EXPECT_EQ(refusal_of([&] {
              x(tensor::zeros({28, 28}));
            }),
            "the model \"mlp\" takes examples of shape [28, 28, 1], but these "
            "are [28]; give other data or a model with this input");
  EXPECT_EQ(refusal_of([&] {
              x(tensor::zeros({5, 28, 28, 1}, dtype::uint8));
            }),
            "the model \"mlp\" takes float32, but these examples are "
            "uint8[5, 28, 28, 1]; convert them");
  EXPECT_THROW(x(tensor::zeros({})), std::invalid_argument);
  EXPECT_THROW(x.net.forward(tensor::zeros({5, 28, 28, 1}), {}),
               std::logic_error);
}

} // namespace
} // namespace troupe::models
