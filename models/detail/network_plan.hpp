#pragma once

#include "troupe/models/description.hpp"
#include "troupe/models/layer.hpp"

#include <string_view>

namespace troupe::models::detail {

/// The tree of a model's layers, with all shapes and parameters.
struct plan {
  /// @errors throws std::invalid_argument if the layers do not fit together.
  plan(const model_description& from, std::string_view where);

  layer_node root;
  declarations declared;
};

} // namespace troupe::models::detail
