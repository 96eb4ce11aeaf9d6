// [doc:begin own_layer]
#include "troupe/models/network.hpp"
#include "troupe/tensors/ops/binary.hpp"

namespace {

using namespace troupe;

/// Multiplies each channel by a learned factor.
class scale : public models::layer {
public:
  std::string_view type() const override { return "scale"; }

  void visit_settings(models::layer_settings& s) override {
    s.real("gain", gain, {.low = 0});
  }

  shape build(const shape& input, models::builder& b) const override {
    if (input.rank() == 0)
      b.refuse("needs at least one axis");
    b.parameter("factor", {input.back()}, initializer{"ones"});
    return input;
  }

  tensor forward(const tensor& x,
                 const models::layer_scope& scope) const override {
    return x * scope[0] * gain;
  }

  double gain = 1;
};

} // namespace
// [doc:end]

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace {

void start_program() {
  // [doc:begin own_layer_register]
  models::register_layer<scale>();
  // [doc:end]
}

/// Registers the layer once for all tests, because a second registration of a
/// name throws.
const bool registered = [] {
  start_program();
  return true;
}();

TEST(OwnLayer, IsDescribedBuiltAndRunLikeABuiltInLayer) {
  ASSERT_TRUE(registered);
  // [doc:begin own_layer_use]
  const auto description = models::parse(R"({
    "version": 1, "name": "mine", "input": [2],
    "layers": [{"type": "scale", "gain": 2}]})",
                                         "mine");
  const models::network net{description};
  parameters own{net.parameters()};
  net.initialize(own, 1);
  const auto y =
    net.forward(tensor::of<float>({1, 2}, {3, 4}), own.variables());
  // [doc:end]
  EXPECT_TRUE(same_bits(y, tensor::of<float>({1, 2}, {6, 8})));
  EXPECT_EQ(net.parameters()[0].name, "scale_1/factor");
  EXPECT_EQ(models::to_json_text(description), R"({
  "version": 1,
  "name": "mine",
  "input": [2],
  "layers": [
    {"type": "scale", "gain": 2.0}
  ]
}
)");
}

/// Returns x, plus the output of the child layers for x, plus a learned shift.
class residual : public models::layer {
public:
  std::string_view type() const override { return "residual"; }
  void visit_settings(models::layer_settings& s) override {
    s.layers("layers", layers);
  }

  shape build(const shape& input, models::builder& b) const override {
    auto at = input;
    for (const auto& one : layers)
      at = b.add(one, at);
    if (at != input)
      b.refuse("must return the shape of its input");
    b.parameter("shift", {1}, initializer{"ones"});
    return input;
  }

  tensor forward(const tensor& x,
                 const models::layer_scope& scope) const override {
    auto y = x;
    for (std::size_t i = 0; i < scope.children(); ++i)
      y = scope.forward(i, y);
    return x + y + scope[0];
  }

  models::layer_list layers;
};

const bool residual_registered = [] {
  models::register_layer<residual>();
  return true;
}();

TEST(OwnLayer, MayHaveChildLayers) {
  ASSERT_TRUE(residual_registered);
  const models::network net{models::parse(R"({
    "version": 1, "name": "mine", "input": [2],
    "layers": [{"type": "residual", "layers": [
                 {"type": "scale", "gain": 2}, {"type": "scale", "gain": 5}]},
               {"type": "scale"}]})",
                                          "mine")};
  std::string names;
  for (const auto& spec : net.parameters())
    names += spec.name + " ";
  EXPECT_EQ(names, "residual_1/scale_1/factor residual_1/scale_2/factor "
                   "residual_1/shift scale_1/factor ");
  parameters own{net.parameters()};
  net.initialize(own, 1);
  EXPECT_TRUE(
    same_bits(net.forward(tensor::of<float>({1, 2}, {3, 4}), own.variables()),
              tensor::of<float>({1, 2}, {34, 45})));
}

/// Has one parameter, with the extents of the input.
class table : public models::layer {
public:
  std::string_view type() const override { return "table"; }
  void visit_settings(models::layer_settings&) override {}
  shape build(const shape& input, models::builder& b) const override {
    const std::vector<std::int64_t> extents{input.begin(), input.end()};
    b.parameter("entries", extents, initializer{"ones"});
    return input;
  }
  tensor forward(const tensor& x,
                 const models::layer_scope& scope) const override {
    return x + scope[0];
  }
};

const bool table_registered = [] {
  models::register_layer<table>();
  return true;
}();

TEST(OwnLayer, MayComputeTheExtentsOfAParameter) {
  ASSERT_TRUE(table_registered);
  const models::network net{models::parse(R"({
    "version": 1, "name": "mine", "input": [2, 3],
    "layers": [{"type": "table"}]})",
                                          "mine")};
  EXPECT_EQ(net.parameters()[0].dims, (shape{2, 3}));
}

/// Adds 1 in training only.
class shifted_in_training : public models::layer {
public:
  std::string_view type() const override { return "shifted_in_training"; }
  shape build(const shape& input, models::builder&) const override {
    return input;
  }
  tensor forward(const tensor& x,
                 const models::layer_scope& scope) const override {
    return scope.training() ? x + 1.0 : x;
  }
};

const bool shifted_registered = [] {
  models::register_layer<shifted_in_training>();
  return true;
}();

TEST(OwnLayer, SeesWhetherTheModelIsCalledInTraining) {
  ASSERT_TRUE(shifted_registered);
  const models::network net{models::parse(R"({
    "version": 1, "name": "mine", "input": [2],
    "layers": [{"type": "residual",
                "layers": [{"type": "shifted_in_training"}]}]})",
                                          "mine")};
  parameters values{net.parameters()};
  net.initialize(values, 1);
  const auto x = tensor::of<float>({1, 2}, {3, 4});
  EXPECT_TRUE(same_bits(net.forward(x, values.variables()),
                        tensor::of<float>({1, 2}, {7, 9})));
  EXPECT_TRUE(same_bits(net.forward(x, values.variables(), {.training = true}),
                        tensor::of<float>({1, 2}, {8, 10})));
}

TEST(OwnLayer, ErrorsContainThePathOfTheLayer) {
  try {
    models::parse(R"({"version": 1, "name": "mine", "input": [2],
      "layers": [{"type": "residual",
                  "layers": [{"type": "dense", "units": 3}]}]})",
                  "mine");
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string{e.what()},
              "mine: layers[0] (residual) must return the "
              "shape of its input");
  }
}

TEST(OwnLayer, CannotHaveARegisteredName) {
  EXPECT_THROW(models::register_layer<scale>(), std::logic_error);
}

class nameless : public scale {
public:
  std::string_view type() const override { return "has spaces"; }
};

TEST(OwnLayer, CannotHaveAnInvalidName) {
  EXPECT_THROW(models::register_layer<nameless>(), std::logic_error);
}

class unknown : public scale {
public:
  std::string_view type() const override { return "unknown"; }
};

TEST(OwnLayer, UnregisteredLayersAreRejectedByName) {
  std::string types;
  for (const auto& type : models::layer_types())
    types += (types.empty() ? "" : ", ") + type;
  const models::model_description description{
    "m", {2}, {std::make_shared<unknown>()}};
  try {
    models::network{description};
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string{e.what()},
              "the model \"m\": layers[0].type is \"unknown\", which is not a "
              "layer type; it must be one of "
                + types + ", or a type added by register_layer");
  }
}

} // namespace
