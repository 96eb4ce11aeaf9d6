#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"
#include "workers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>

namespace {

using namespace troupe;
using namespace troupe::test;
using models::precision;

/// Has a convolution with pooling, dropout, and a layer that the others follow.
models::model_description small_conv_net() {
  return models::parse(
    R"({"version": 1, "name": "small", "input": [28, 28, 1], "layers": [
        {"type": "conv2d", "filters": 4, "kernel": 5, "stride": 2,
         "activation": "relu"},
        {"type": "max_pool2d"}, {"type": "flatten"},
        {"type": "dropout", "rate": 0.3},
        {"type": "dense", "units": 24, "activation": "relu"},
        {"type": "dense", "units": 10}]})",
    "the test");
}

model model_in(precision p) {
  return {small_conv_net(), adam{}, {.seed = 5, .precision = p}};
}

struct trained {
  std::string weights;
  double loss = 0; ///< Of an evaluation.

  friend bool operator==(const trained&, const trained&) = default;
};

trained fit_in(const strategy& on, precision p) {
  const auto scope = on.scope();
  auto it = model_in(p);
  it.fit(uneven_batches(), {.epochs = 2});
  return {it.weights_sha256(), it.evaluate(digits_200().batch(48)).loss};
}

trained fit_in_bf16(const strategy& on) {
  return fit_in(on, precision::bf16);
}

TEST(Bf16, MirroredReplicasEndWithTheBitsOfReplicasInTurn) {
  runtime actors;
  const std::vector<std::string> devices{"cpu:0", "cpu:1", "cpu:2", "cpu:3"};
  for (const std::uint32_t replicas : {1, 2, 4})
    EXPECT_EQ(fit_in_bf16(mirrored_strategy{
                actors, {devices.begin(), devices.begin() + replicas}}),
              fit_in_bf16(turns(replicas)))
      << replicas << " replicas";
}

TEST(Bf16, WorkersEndWithTheBitsOfReplicasInTurn) {
  for (const auto& [workers, each] : {std::pair{2u, 1u}, {2u, 2u}, {4u, 1u}}) {
    std::vector<trained> found(workers);
    expect_success_on_workers(
      workers, each,
      [&](const strategy& on, std::uint32_t w) { found[w] = fit_in_bf16(on); });
    const auto expected = fit_in_bf16(turns(workers * each));
    for (const auto& one : found)
      EXPECT_EQ(one, expected) << workers << " workers with " << each;
  }
}

TEST(Bf16, EndsWithOtherBitsThanFloat32) {
  EXPECT_NE(fit_in_bf16(turns(1)).weights,
            fit_in(turns(1), precision::float32).weights);
}

TEST(Bf16, WorkersMustHaveOnePrecision) {
  const auto thrown = run_on_workers(2, 1, [](const strategy& on, auto w) {
    fit_in(on, w == 0 ? precision::float32 : precision::bf16);
  });
  EXPECT_NE(exception_text(thrown[1]).find("precision"), std::string::npos)
    << exception_text(thrown[1]);
}

/// Notes the dtypes that a layer sees.
struct seen_dtypes {
  dtype input{}, parameter{};
};
seen_dtypes seen;

class scaling_layer final : public models::layer {
public:
  std::string_view type() const override { return "scaling"; }
  shape build(const shape& input, models::builder& b) const override {
    b.parameter("factor", {1}, initializer{"ones"});
    return input;
  }
  tensor forward(const tensor& x, const models::layer_scope& s) const override {
    const auto factor = s[0];
    seen = {x.type(), factor.type()};
    return x * factor;
  }
};

models::model_description scaling_net() {
  models::register_layer<scaling_layer>();
  return {.name = "scaling",
          .input = {3},
          .layers = {std::make_shared<scaling_layer>()}};
}

// 1 + 2^-8 is a tie between the bfloat16 values 1 and 1 + 2^-7, and 3 is exact.
TEST(Bf16, LayersComputeInBfloat16AndTheRestInFloat32) {
  static const auto net = scaling_net();
  const model it{net, sgd{}, {.precision = precision::bf16}};
  const auto x = tensor::of<float>({1, 3}, {1 + 0x1p-8f, 3, -2});
  tape t;
  const auto y = it(x);
  EXPECT_EQ(seen.input, dtype::bfloat16);
  EXPECT_EQ(seen.parameter, dtype::bfloat16);
  EXPECT_TRUE(same_bits(y, tensor::of<float>({1, 3}, {1, 3, -2})));
  EXPECT_EQ(it.variables()[0].value().type(), dtype::float32);
  const auto gradient = t.gradient(y, it.variables());
  EXPECT_TRUE(same_bits(gradient[0], tensor::of<float>({1}, {2})));
}

class widening_layer final : public models::layer {
public:
  std::string_view type() const override { return "widening"; }
  shape build(const shape& input, models::builder&) const override {
    return input;
  }
  tensor forward(const tensor& x, const models::layer_scope&) const override {
    return x.as(dtype::float32);
  }
};

TEST(Bf16, ALayerThatReturnsAnotherDtypeIsNamed) {
  models::register_layer<widening_layer>();
  const model it{{.name = "widening",
                  .input = {3},
                  .layers = {std::make_shared<widening_layer>()}},
                 sgd{},
                 {.precision = precision::bf16}};
  const auto thrown = run_on_workers(1, 1, [&](const strategy&, auto) {
    it(tensor::zeros({2, 3}));
  });
  EXPECT_EQ(exception_text(thrown[0]),
            "the layer \"widening_1\" returned float32[2, 3], but the model "
            "computes in bfloat16; convert the result with as()");
}

// 1 + 2^-12 is no bfloat16, so an update of a bfloat16 parameter would be lost.
TEST(Bf16, UpdatesSmallerThanABfloat16StepAreKept) {
  static const auto net = models::model_description{
    .name = "one",
    .input = {1},
    .layers = models::stack(
      models::dense{.units = 1, .kernel_initializer = initializer{"ones"}})};
  const auto scope = turns(1).scope();
  model it{net,
           sgd{.learning_rate = 0x1p-13f},
           {.loss = "mean_squared_error", .precision = precision::bf16}};
  // The output is 1, the target 0: the gradient of the kernel is 2 * 1 * 1.
  const data::dataset one_example{tensor::full({1, 1}, 1),
                                  tensor::full({1, 1}, 0)};
  it.fit(one_example.batch(1));
  EXPECT_EQ(it.variables()[0].value().data<float>()[0], 1 - 0x1p-12f);
}

// -- accuracy -----------------------------------------------------------------

/// Accuracy on digits that were not trained on.
double accuracy_in(precision p, std::uint64_t seed) {
  static const auto net = models::parse(
    R"({"version": 1, "name": "small", "input": [28, 28, 1], "layers": [
        {"type": "conv2d", "filters": 8, "kernel": 5, "activation": "relu"},
        {"type": "max_pool2d"}, {"type": "flatten"},
        {"type": "dense", "units": 32, "activation": "relu"},
        {"type": "dense", "units": 10}]})",
    "the test");
  const auto scope = turns(1).scope();
  model it{net, adam{.learning_rate = 2e-3f}, {.seed = seed, .precision = p}};
  it.fit(data::digits({.examples = 2000, .seed = 3}).shuffle().batch(20),
         {.epochs = 4});
  return it.evaluate(data::digits({.examples = 2000, .seed = 4}).batch(250))
    .accuracy;
}

// On a CPU, nothing is rounded.
TEST(Tf32, OnTheCpuHasTheBitsOfFloat32AndIsSaved) {
  const auto rounded = fit_in(turns(2), precision::tf32),
             exact = fit_in(turns(2), precision::float32);
  EXPECT_EQ(rounded.weights, exact.weights);
  const auto file = std::filesystem::path{::testing::TempDir()} / "tf32.troupe";
  model_in(precision::tf32).save(file);
  EXPECT_EQ(model::load(file).precision(), precision::tf32);
  std::filesystem::remove(file);
}

// Runs with other seeds differ by more than the precisions do, so the means are
// compared.
TEST(Bf16, IsAsAccurateAsFloat32OnGeneratedDigits) {
  constexpr std::uint64_t seeds = 6;
  double wide = 0, narrow = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    wide += accuracy_in(precision::float32, seed) / seeds;
    narrow += accuracy_in(precision::bf16, seed) / seeds;
  }
  EXPECT_GT(wide, 0.85);
  EXPECT_NEAR(narrow, wide, 0.005) << "float32 " << wide << ", bf16 " << narrow;
}

// -- saved models -------------------------------------------------------------

class SavedPrecision : public scratch_test {};

TEST_F(SavedPrecision, LoadedModelResumesWithTheBitsOfAnUninterruptedFit) {
  const auto scope = turns(2).scope();
  auto whole = model_in(precision::bf16);
  whole.fit(uneven_batches(), {.epochs = 2});
  auto cut = model_in(precision::bf16);
  cut.fit(uneven_batches(), {.epochs = 2, .max_steps = 5});
  cut.save(folder / "a");
  auto loaded = model::load(folder / "a");
  EXPECT_EQ(loaded.precision(), precision::bf16);
  loaded.fit(uneven_batches(), {.epochs = 2, .resume = true});
  EXPECT_EQ(loaded.weights_sha256(), whole.weights_sha256());
}

// An older Troupe would resume a file of version 3 in float32.
TEST_F(SavedPrecision, OnlyAModelInBf16IsWrittenInVersion4) {
  constexpr std::size_t version_at = 8;
  for (const auto p : {precision::float32, precision::bf16}) {
    model_in(p).save(folder / "a");
    EXPECT_EQ(text_of("a").at(version_at), p == precision::bf16 ? 4 : 3);
    EXPECT_EQ(model::load(folder / "a").precision(), p);
  }
}

TEST(SavedHeader, RejectsAnUnknownPrecision) {
  saved_header header;
  header.model = small_conv_net();
  header.precision = precision::bf16;
  auto text = write_header(header);
  EXPECT_EQ(read_header(text, 4, "f").precision, precision::bf16);
  const auto at = text.find("\"bf16\"");
  ASSERT_NE(at, text.npos);
  text.replace(at, 6, "\"fp16\"");
  try {
    read_header(text, 4, "f");
    FAIL() << "no error";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "f is damaged: its header at \"precision\" is not "
                           "the name of a precision");
  }
}

} // namespace
