#pragma once

#include "troupe/models/description.hpp"
#include "troupe/models/layer.hpp"

#include <string_view>

namespace troupe::models::detail {

/// The tree of a model's layers, with all shapes and parameters.
struct network_plan {
  /// @errors throws std::invalid_argument if the layers do not fit together.
  network_plan(const model_description& description, std::string_view source);

  layer_node root;
  parameter_declarations declared;
};

} // namespace troupe::models::detail
