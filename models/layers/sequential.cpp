#include "troupe/models/layers/sequential.hpp"

namespace troupe::models {

void sequential::list(settings& s) {
  s.layers("layers", layers);
}

shape sequential::build(const shape& input, builder& b) const {
  auto at = input;
  for (const auto& one : layers)
    at = b.add(one, at);
  return at;
}

tensor sequential::forward(const tensor& x, const place& own) const {
  auto y = x;
  for (std::size_t i = 0; i < own.children(); ++i)
    y = own.forward(i, y);
  return y;
}

} // namespace troupe::models
