#include "troupe/models/detail/network_plan.hpp"

#include "troupe/models/layers/sequential.hpp"

namespace troupe::models::detail {

plan::plan(const model_description& from, std::string_view where) {
  root.what = std::make_shared<sequential>(from.layers);
  root.input = from.input;
  builder b{where, declared, root};
  root.output = root.what->build(from.input, b);
}

} // namespace troupe::models::detail
