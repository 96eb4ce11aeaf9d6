#pragma once

// Includes the headers of all built-in layers.

#include "troupe/models/layers/category_embedding.hpp"
#include "troupe/models/layers/conv2d.hpp"
#include "troupe/models/layers/dense.hpp"
#include "troupe/models/layers/dropout.hpp"
#include "troupe/models/layers/flatten.hpp"
#include "troupe/models/layers/max_pool2d.hpp"
#include "troupe/models/layers/relu.hpp"
#include "troupe/models/layers/sequential.hpp"

namespace troupe::models {

/// Makes a layer from its settings, such as `dense{.units = 10}`.
template <class Settings>
requires std::derived_from<typename Settings::layer_type, layer>
  layer_ptr make_layer(Settings settings) {
  return std::make_shared<typename Settings::layer_type>(std::move(settings));
}

template <std::derived_from<layer> Layer>
layer_ptr make_layer(Layer one) {
  return std::make_shared<Layer>(std::move(one));
}

/// Makes a list of layers, of their settings or of layers:
/// `stack(conv2d{.filters = 16, .kernel = 3}, flatten{}, dense{10})`.
template <class... Layers>
layer_list stack(Layers... layers) {
  return {make_layer(std::move(layers))...};
}

} // namespace troupe::models
