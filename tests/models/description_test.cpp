#include "../support/scratch.hpp"
#include "troupe/models/description.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/models/network.hpp"
#include "troupe/models/zoo.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace troupe::models {
namespace {

using generator = std::mt19937_64;

std::int64_t below(generator& rng, std::uint64_t n) {
  return static_cast<std::int64_t>(rng() % n);
}

std::array<std::int64_t, 2> some_pair(generator& rng, std::uint64_t n) {
  return {1 + below(rng, n), 1 + below(rng, n)};
}

void maybe_name(layer& x, generator& rng) {
  if (rng() % 3 == 0)
    x.name = "own-" + std::to_string(rng());
}

template <class Layer>
void add(layer_list& to, Layer x, generator& rng) {
  to.push_back(make_layer(std::move(x)));
  maybe_name(*to.back(), rng);
}

layer_list some_image_layers(generator& rng, int depth) {
  layer_list out;
  for (auto left = 1 + rng() % 4; left > 0; --left) {
    switch (rng() % (depth > 0 ? 5 : 4)) {
      case 0: {
        conv2d x{1 + below(rng, 5), 1, padding{rng() % 2 == 0},
                 activation{rng() % 2 == 0}};
        x.kernel = some_pair(rng, x.padding == padding::same ? 9 : 1);
        x.stride = some_pair(rng, 3);
        if (rng() % 2)
          x.kernel_initializer = initializer{
            "normal", {{{"deviation", double(below(rng, 100)) / 1000}}}};
        add(out, x, rng);
        break;
      }
      case 1: {
        max_pool2d x;
        x.window = some_pair(rng, 5);
        x.padding = padding::same;
        if (rng() % 2)
          x.stride = some_pair(rng, 3);
        add(out, x, rng);
        break;
      }
      case 2:
        add(out, dropout{double(below(rng, 1000)) / 1000}, rng);
        break;
      case 3:
        add(out, relu{}, rng);
        break;
      case 4:
        add(out, sequential{some_image_layers(rng, depth - 1)}, rng);
    }
  }
  return out;
}

model_description some_description(generator& rng) {
  model_description out{
    .name = "model." + std::to_string(rng()),
    .input = {1 + below(rng, 12), 1 + below(rng, 12), 1 + below(rng, 3)},
    .layers = some_image_layers(rng, 3)};
  if (rng() % 2) {
    add(out.layers, flatten{}, rng);
    for (auto left = 1 + rng() % 3; left > 0; --left)
      add(out.layers, dense{1 + below(rng, 20), activation{rng() % 2 == 0}},
          rng);
  }
  return out;
}

using Description = scratch_test;

TEST_F(Description, IsTheSameAfterReadingAndWriting) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    generator rng{seed};
    const auto first = some_description(rng);
    const auto text = to_json_text(first);
    const auto second = parse(text, "text");
    ASSERT_EQ(text, to_json_text(second));
    ASSERT_EQ(first.name, second.name);
    ASSERT_EQ(first.input, second.input);
    ASSERT_EQ(first.layers.size(), second.layers.size());
    const network a{first}, b{second};
    ASSERT_EQ(summary(a), summary(b));
    ASSERT_EQ(a.parameters().size(), b.parameters().size());
    for (std::size_t i = 0; i < a.parameters().size(); ++i) {
      ASSERT_EQ(a.parameters()[i].name, b.parameters()[i].name);
      ASSERT_EQ(a.parameters()[i].dims, b.parameters()[i].dims);
    }
  }
}

TEST_F(Description, OfMlpHasThisJson) {
  EXPECT_EQ(to_json_text(mlp()), R"({
  "version": 1,
  "name": "mlp",
  "input": [28, 28, 1],
  "layers": [
    {"type": "flatten"},
    {"type": "dense", "units": 512, "activation": "relu", )"
                                 R"("kernel_initializer": "glorot_uniform", )"
                                 R"("bias_initializer": "zeros"},
    {"type": "dense", "units": 512, "activation": "relu", )"
                                 R"("kernel_initializer": "glorot_uniform", )"
                                 R"("bias_initializer": "zeros"},
    {"type": "dense", "units": 10, "activation": "none", )"
                                 R"("kernel_initializer": "glorot_uniform", )"
                                 R"("bias_initializer": "zeros"}
  ]
}
)");
}

TEST_F(Description, DefaultsAreThoseOfKeras) {
  const auto read = parse(R"({"version": 1, "name": "few", "input": [8, 8, 3],
    "layers": [{"type": "conv2d", "filters": 4, "kernel": [3, 2]},
               {"type": "max_pool2d", "window": 3},
               {"type": "dropout", "rate": 0.5}]})",
                          "few");
  EXPECT_EQ(to_json_text(read), R"({
  "version": 1,
  "name": "few",
  "input": [8, 8, 3],
  "layers": [
    {"type": "conv2d", "filters": 4, "kernel": [3, 2], "stride": [1, 1], )"
                                R"("padding": "valid", "activation": "none", )"
                                R"("kernel_initializer": "glorot_uniform", )"
                                R"("bias_initializer": "zeros"},
    {"type": "max_pool2d", "window": [3, 3], "stride": [3, 3], )"
                                R"("padding": "valid"},
    {"type": "dropout", "rate": 0.5}
  ]
}
)");
}

TEST_F(Description, KeepsTheHyperparametersOfAnInitializer) {
  const auto read = parse(R"({"version": 1, "name": "m", "input": [3],
    "layers": [{"type": "dense", "units": 2, "kernel_initializer":
      {"name": "uniform", "low": -0.1}, "bias_initializer": "constant"}]})",
                          "m");
  EXPECT_NE(to_json_text(read).find(
              R"("kernel_initializer": {"name": "uniform", "low": -0.1, )"
              R"("high": 0.05},)"),
            std::string::npos)
    << to_json_text(read);
}

TEST_F(Description, IsFoundByNameOrFile) {
  EXPECT_EQ(find_model("lenet").name, "lenet");
  EXPECT_EQ(find_model("mlp").name, "mlp");
  auto mine = mlp();
  mine.name = "mine";
  put("mine.json", to_json_text(mine));
  put("other", to_json_text(mine));
  EXPECT_EQ(find_model((folder / "mine.json").string()).name, "mine");
  EXPECT_EQ(find_model((folder / "other").string()).name, "mine");
}

TEST_F(Description, RejectsLayersThatContainThemselves) {
  const auto snake = std::make_shared<sequential>();
  snake->layers = {snake};
  const model_description endless{"endless", {1}, {snake}};
  EXPECT_THROW(to_json_text(endless), std::logic_error);
  snake->layers.clear();
}

TEST_F(Description, RejectsInvalidValuesSetInAProgram) {
  EXPECT_THROW((network{{"m", {4}, stack(dense{-3})}}), std::invalid_argument);
  EXPECT_THROW((network{{"m", {4}, stack(dropout{1.5})}}),
               std::invalid_argument);
  EXPECT_THROW((network{{"m", {4}, {}}}), std::invalid_argument);
  EXPECT_THROW((network{{"m", {4}, {nullptr}}}), std::logic_error);
  EXPECT_THROW((network{{"a/b", {4}, stack(dense{3})}}), std::invalid_argument);
}

} // namespace
} // namespace troupe::models
