// [doc:begin own_layer]
#include "troupe/models/network.hpp"
#include "troupe/tensors/ops/binary.hpp"

namespace {

using namespace troupe;

/// Multiplies each channel by a factor that it learns.
class scale : public models::layer {
public:
  std::string_view type() const override { return "scale"; }

  void list(models::settings& s) override { s.real("gain", gain, {.low = 0}); }

  shape build(const shape& input, models::builder& b) const override {
    if (input.rank() == 0)
      b.refuse("needs at least one axis");
    b.parameter("factor", {input.back()}, initializer{"ones"});
    return input;
  }

  tensor forward(const tensor& x, const models::place& own) const override {
    return x * own[0] * gain;
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

/// A name can be taken only once.
const bool registered = [] {
  start_program();
  return true;
}();

TEST(OwnLayer, IsDescribedBuiltAndRunLikeTheHousesOwn) {
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

TEST(OwnLayer, CannotTakeANameThatIsTaken) {
  EXPECT_THROW(models::register_layer<scale>(), std::logic_error);
}

class nameless : public scale {
public:
  std::string_view type() const override { return "has spaces"; }
};

TEST(OwnLayer, CannotTakeAWordThatIsNoName) {
  EXPECT_THROW(models::register_layer<nameless>(), std::logic_error);
}

class unknown : public scale {
public:
  std::string_view type() const override { return "unknown"; }
};

TEST(OwnLayer, ThatWasNotRegisteredIsRefusedByName) {
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
              "the model \"m\": layers[0].type is \"unknown\", which is no "
              "layer; it must be one of "
                + types + ", or your own after register_layer");
  }
}

} // namespace
