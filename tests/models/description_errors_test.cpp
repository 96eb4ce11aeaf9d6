#include "../support/scratch.hpp"
#include "troupe/models/description.hpp"
#include "troupe/models/detail/names.hpp"
#include "troupe/models/layer.hpp"
#include "troupe/models/zoo.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace troupe::models {
namespace {

/// Returns the message of the exception that `read` throws.
std::string error_of(const auto& read) {
  try {
    read();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

/// Returns the error of a file that cannot be read.
std::string file_error_of(const auto& read) {
  try {
    read();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "no error";
}

std::string error_of_text(const std::string& text) {
  return error_of([&] { parse(text, "m.json"); });
}

std::string with_input(const std::string& input, const std::string& layers) {
  return error_of_text(R"({"version": 1, "name": "m", "input": )" + input
                       + R"(, "layers": [)" + layers + "]}");
}

std::string with_layers(const std::string& layers) {
  return with_input("[8, 8, 1]", layers);
}

/// Returns the names of all layer types. Other tests of this program may have
/// registered types.
std::string types() {
  return detail::joined(layer_types());
}

TEST(DescriptionErrors, NameTheLineOfInvalidJson) {
  EXPECT_EQ(error_of_text(""), "m.json: line 1, column 1: this is not JSON; "
                               "fix it there or just before");
  EXPECT_EQ(
    error_of_text("{\n  \"name\": nul\n}"),
    "m.json: line 2, column 14: this is not JSON; fix it there or just before");
  EXPECT_EQ(error_of_text("[1e999]"),
            "m.json: a number is too large; it must be below 1e308");
  EXPECT_EQ(error_of_text(R"({"name": "a", "name": "b"})"),
            "m.json: the key \"name\" occurs twice in one object; remove one");
  EXPECT_EQ(error_of_text("[1, 2]"),
            "m.json: a model is an object, {\"version\": 1, \"name\": ..., "
            "\"input\": [...], \"layers\": [...]}, not [1, 2]");
}

TEST(DescriptionErrors, NameAMissingTopLevelKey) {
  EXPECT_EQ(error_of_text("{}"), "m.json: version is missing; a model needs "
                                 "it: an integer from 1 to 16777216");
  EXPECT_EQ(error_of_text(R"({"version": 1})"),
            "m.json: name is missing; a model needs it: 1 to 64 letters, "
            "digits, \"_\", \"-\" or \".\"");
  EXPECT_EQ(error_of_text(R"({"version": 1, "name": "a b"})"),
            "m.json: name is \"a b\"; it must be 1 to 64 letters, digits, "
            "\"_\", \"-\" or \".\"");
  EXPECT_EQ(error_of_text(R"({"version": 1, "name": "m", "inputs": [1]})"),
            "m.json: \"inputs\" is not a setting of a model; did you mean "
            "\"input\"? it needs input: a list of 1 to 7 numbers, each an "
            "integer from 1 to 16777216");
  EXPECT_EQ(error_of_text(R"({"version": 1, "name": "m", "input": [1]})"),
            "m.json: layers is missing; a model needs it: a list of 1 to 1000 "
            "layers, each like {\"type\": \"flatten\"}");
}

TEST(DescriptionErrors, ReportANewerVersion) {
  EXPECT_EQ(error_of_text(R"({"version": 2, "name": "m"})"),
            "m.json: version is 2, but this Troupe reads versions up to 1; use "
            "a newer Troupe");
}

TEST(DescriptionErrors, NameAnInvalidInput) {
  const std::string wanted = "a list of 1 to 7 numbers, each an integer from 1 "
                             "to 16777216";
  for (const auto* bad : {"[0]", "[-1]", "[1.5]", "[16777217]", "[]", "28",
                          "[18446744073709551615]", "[1, 1, 1, 1, 1, 1, 1, 1]"})
    EXPECT_EQ(with_input(bad, R"({"type": "flatten"})"),
              std::string{"m.json: input is "} + bad + "; it must be "
                + wanted);
  EXPECT_EQ(with_input("[\"a\"]", R"({"type": "flatten"})"),
            "m.json: input is a list of other things than numbers; it must be "
              + wanted);
  EXPECT_EQ(with_input("[16777216, 16777216, 16777216, 16777216]",
                       R"({"type": "flatten"})"),
            "m.json: input has more than 268435456 elements for one example; "
            "make it smaller");
}

TEST(DescriptionErrors, NameAnUnknownLayerType) {
  EXPECT_EQ(with_layers("7"), "m.json: layers[0] is 7; it must be a layer, "
                              "{\"type\": ...}");
  EXPECT_EQ(with_layers(R"({"type": "flatten"}, {"units": 3})"),
            "m.json: layers[1].type is missing; it must be one of " + types());
  EXPECT_EQ(with_layers(R"({"type": 3})"),
            "m.json: layers[0].type is 3; it must be one of " + types());
  EXPECT_EQ(
    with_layers(R"({"type": "conv3d"})"),
    "m.json: layers[0].type is \"conv3d\", which is not a layer type; did you "
    "mean \"conv2d\"? it must be one of "
      + types() + ", or a type added by register_layer");
  EXPECT_EQ(
    with_layers(R"({"type": "lstm"})"),
    "m.json: layers[0].type is \"lstm\", which is not a layer type; it must be "
    "one of "
      + types() + ", or a type added by register_layer");
  EXPECT_EQ(with_layers(""),
            "m.json: layers is []; it must be a list of 1 to 1000 layers, each "
            "like {\"type\": \"flatten\"}");
}

TEST(DescriptionErrors, NameTheSettingAndItsValue) {
  const std::string flat = R"({"type": "flatten"}, )";
  EXPECT_EQ(with_layers(flat + R"({"type": "dense"})"),
            "m.json: layers[1].units is missing; a dense layer needs it: an "
            "integer from 1 to 16777216");
  EXPECT_EQ(
    with_layers(flat + R"({"type": "dense", "unit": 3})"),
    "m.json: layers[1]: \"unit\" is not a setting of a dense layer; did "
    "you mean \"units\"? it needs units: an integer from 1 to "
    "16777216");
  EXPECT_EQ(with_layers(flat + R"({"type": "dense", "units": -5})"),
            "m.json: layers[1].units is -5; it must be an integer from 1 to "
            "16777216");
  EXPECT_EQ(with_layers(flat + R"({"type": "dense", "units": "ten"})"),
            "m.json: layers[1].units is \"ten\"; it must be an integer from 1 "
            "to 16777216");
  EXPECT_EQ(with_layers(flat + R"({"type": "dense", "units": 1, )"
                        + R"("activation": "rely"})"),
            "m.json: layers[1].activation is \"rely\"; did you mean \"relu\"? "
            "it must be one of none, relu");
  EXPECT_EQ(with_layers(flat + R"({"type": "dense", "units": 1, )"
                        + R"("activation": null})"),
            "m.json: layers[1].activation is null; it must be one of none, "
            "relu");
  EXPECT_EQ(with_layers(R"({"type": "max_pool2d", "strides": 2})"),
            "m.json: layers[0]: \"strides\" is not a setting of a max_pool2d "
            "layer; did you mean \"stride\"? it has type, name, window, "
            "stride, padding");
  EXPECT_EQ(with_layers(R"({"type": "relu", "name": "a/b"})"),
            "m.json: layers[0].name is \"a/b\"; it must be 1 to 64 letters, "
            "digits, \"_\", \"-\" or \".\"");
}

TEST(DescriptionErrors, NamePairsAndNumbersOutOfRange) {
  const std::string wanted = "it must be an integer from 1 to 16777216, or a "
                             "list of two of them, height and width";
  for (const auto* bad : {"0", "[1]", "[1, 2, 3]", "[1, 0]", "1.5", "true"})
    EXPECT_EQ(with_layers(R"({"type": "conv2d", "filters": 1, "kernel": )"
                          + std::string{bad} + "}"),
              std::string{"m.json: layers[0].kernel is "} + bad + "; "
                + wanted);
  for (const auto* bad : {"1.0", "-0.1", "\"half\"", "[0.5]"})
    EXPECT_EQ(
      with_layers(R"({"type": "dropout", "rate": )" + std::string{bad} + "}"),
      std::string{"m.json: layers[0].rate is "} + bad
        + "; it must be a number, at least 0 and less than 1");
}

TEST(DescriptionErrors, NameAnInvalidInitializer) {
  const auto initial = [](const std::string& value) {
    return with_layers(R"({"type": "conv2d", "filters": 1, "kernel": 1,
                           "bias_initializer": )"
                       + value + "}");
  };
  const std::string prefix = "m.json: layers[0].bias_initializer ";
  const auto names = detail::joined(initializer_names());
  EXPECT_EQ(initial("\"zeroes\""), prefix
                                     + "is \"zeroes\"; did you mean "
                                       "\"zeros\"? it must be one of "
                                     + names);
  EXPECT_EQ(initial("0"), prefix
                            + "is 0; it must be the name of an initializer or "
                              "an object that has a name and numbers");
  EXPECT_EQ(initial(R"({"value": 1})"),
            prefix + "has no name; it must be one of " + names);
  EXPECT_EQ(initial(R"({"name": "constant", "value": "one"})"),
            prefix
              + "has \"value\": \"one\"; all other settings of an initializer "
                "are numbers");
  EXPECT_EQ(initial(R"({"name": "normal", "deviation": -1})"),
            prefix
              + "is invalid: normal: deviation is -1; it must not be "
                "negative");
  EXPECT_EQ(initial(R"({"name": "zeros", "value": 1})"),
            prefix + "is invalid: zeros has no 'value'; it has no numbers");
}

TEST(DescriptionErrors, GiveThePathIntoNestedLayers) {
  EXPECT_EQ(with_layers(R"({"type": "sequential", "layers": [
              {"type": "relu"}, {"type": "dropout", "rate": 2}]})"),
            "m.json: layers[0].layers[1].rate is 2; it must be a number, at "
            "least 0 and less than 1");
  EXPECT_EQ(with_layers(R"({"type": "sequential", "layers": [
              {"type": "relu"}, {"type": "dense", "units": 2}]})"),
            "m.json: layers[0].layers[1] (dense) takes examples of one axis, "
            "but its input is [8, 8, 1]; put a \"flatten\" before it");
}

TEST(DescriptionErrors, ReportLayersThatDoNotFitTogether) {
  EXPECT_EQ(with_layers(R"({"type": "flatten"},
                           {"type": "conv2d", "filters": 1, "kernel": 3})"),
            "m.json: layers[1] (conv2d) takes images of shape [height, width, "
            "channels], but its input is [64]; put it before any \"flatten\"");
  EXPECT_EQ(with_layers(R"({"type": "conv2d", "filters": 1, "kernel": 9})"),
            "m.json: layers[0] (conv2d) has a window of [9, 9], which does not "
            "fit into [8, 8, 1]; make it smaller or the padding \"same\"");
  EXPECT_EQ(with_layers(R"({"type": "max_pool2d", "window": 17,
                            "padding": "same"})"),
            "m.json: layers[0] (max_pool2d) has a window of [17, 17], but at "
            "most 256 elements are allowed; make it smaller");
  EXPECT_EQ(with_layers(R"({"type": "relu", "name": "relu_2"},
                           {"type": "relu"})"),
            "m.json: layers[1] (relu) has the name of layers[0], \"relu_2\"; "
            "rename one of them");
}

TEST(DescriptionErrors, ReportATooLargeModelBeforeAnyAllocation) {
  EXPECT_EQ(with_layers(R"({"type": "flatten"},
                           {"type": "dense", "units": 16777216},
                           {"type": "dense", "units": 16777216})"),
            "m.json: layers[2] (dense) cannot have the parameter kernel of "
            "shape [16777216, 16777216]: a model has at most 2147483648 "
            "parameters; make its layers smaller");
  EXPECT_EQ(with_layers(R"({"type": "flatten"},
                           {"type": "dense", "units": 16777216},
                           {"type": "dense", "units": 64})"),
            "m.json: layers[2] (dense) cannot have the parameter kernel of "
            "shape [16777216, 64]: a model has at most 2147483648 parameters; "
            "make its layers smaller");
  EXPECT_EQ(
    with_layers(R"({"type": "conv2d", "filters": 16777216,
                            "kernel": 1})"),
    "m.json: layers[0] (conv2d) would return [8, 8, 16777216] for one "
    "example, but at most 268435456 elements are allowed; make it smaller");
}

TEST(DescriptionErrors, ReportTooDeepNesting) {
  const auto nested = [](int depth) {
    std::string text = R"({"type": "relu"})";
    for (int i = 0; i < depth; ++i)
      text = R"({"type": "sequential", "layers": [)" + text + "]}";
    return with_layers(text);
  };
  EXPECT_EQ(nested(32), "no error");
  EXPECT_NE(nested(33).find("is nested in more than 32 layers; nest"),
            std::string::npos);
  EXPECT_EQ(
    error_of_text(std::string(100'000, '[')),
    "m.json: brackets are nested more than 100 deep; nest layers less deeply");
}

TEST(DescriptionErrors, ReportATooLongText) {
  EXPECT_EQ(error_of_text(std::string((1 << 20) + 1, ' ')),
            "m.json: more than 1048576 bytes; a model's description is "
            "shorter");
}

using DescriptionFileErrors = scratch_test;

TEST_F(DescriptionFileErrors, NameTheFile) {
  const auto path = (folder / "none.json").string();
  EXPECT_EQ(file_error_of([&] { find_model(path); }),
            "cannot read the model " + path + ": No such file or directory");
  EXPECT_EQ(file_error_of([&] { load(folder); }),
            "cannot read the model " + folder.string()
              + ": it is a folder; give the JSON file in it");
  put("broken.json", "{");
  const auto broken = (folder / "broken.json").string();
  EXPECT_EQ(
    error_of([&] { find_model(broken); }),
    broken
      + ": line 1, column 2: this is not JSON; fix it there or just before");
  put("long.json", std::string((1 << 20) + 1, ' '));
  const auto big = (folder / "long.json").string();
  EXPECT_EQ(error_of([&] { find_model(big); }),
            big
              + ": more than 1048576 bytes; a model's description is "
                "shorter");
}

TEST(DescriptionErrors, ListTheBuiltInModels) {
  EXPECT_EQ(error_of([] { find_model("lennet"); }),
            "there is no model \"lennet\"; did you mean \"lenet\"? give one of "
            "lenet, mlp, wide_deep, or a file that ends in .json");
  EXPECT_EQ(error_of([] { find_model("resnet50"); }),
            "there is no model \"resnet50\"; give one of lenet, mlp, "
            "wide_deep, or a file that ends in .json");
}

} // namespace
} // namespace troupe::models
