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

/// Makes a list of layers: `stack(flatten{}, dense{10})`.
template <std::derived_from<layer>... Layers>
layer_list stack(Layers... layers) {
  return {std::make_shared<Layers>(std::move(layers))...};
}

} // namespace troupe::models
