#include "troupe/models/layers/flatten.hpp"

#include "troupe/tensors/ops/reshape.hpp"

namespace troupe::models {

shape flatten::build(const shape& input, builder&) const {
  return {static_cast<std::int64_t>(input.elements())};
}

tensor flatten::forward(const tensor& x, const layer_scope&) const {
  const auto row = x.dims().axes(1, x.dims().rank()).elements();
  return troupe::reshape(x, {x.dims().front(), static_cast<std::int64_t>(row)});
}

} // namespace troupe::models
