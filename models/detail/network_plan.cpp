#include "troupe/models/detail/network_plan.hpp"

#include "troupe/models/layers/sequential.hpp"

namespace troupe::models::detail {

network_plan::network_plan(const model_description& description,
                           std::string_view source) {
  root.instance = std::make_shared<sequential>(description.layers);
  root.input = description.input;
  builder b{source, declared, root, description.categories};
  root.output = root.instance->build(description.input, b);
}

} // namespace troupe::models::detail
