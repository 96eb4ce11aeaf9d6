#pragma once

#include "troupe/data/sources/digits.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/tensors/random.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

// A model and data for the tests of training. A fit takes milliseconds.

namespace troupe {

/// Returns a model for images of digits. Its dense layers have 24 and 10 units.
inline models::model_description small_net(bool with_dropout = false) {
  const std::string drop =
    with_dropout ? R"({"type": "dropout", "rate": 0.3},)" : "";
  return models::parse(
    R"({"version": 1, "name": "small", "input": [28, 28, 1], "layers": [
        {"type": "flatten"},
        {"type": "dense", "units": 24, "activation": "relu"},)"
      + drop + R"({"type": "dense", "units": 10}]})",
    "the test");
}

/// Returns 200 generated digits. All tests share one dataset.
inline const data::dataset& digits_200() {
  static const auto all = data::digits({.examples = 200, .seed = 3});
  return all;
}

inline one_device_strategy turns(std::uint32_t replicas) {
  return one_device_strategy{"cpu:0", {.replicas = replicas}};
}

} // namespace troupe
