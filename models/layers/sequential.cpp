#include "troupe/models/layers/sequential.hpp"

#include "troupe/models/layers/conv2d.hpp"
#include "troupe/models/layers/max_pool2d.hpp"
#include "troupe/tensors/ops/conv2d_max_pool.hpp"

#include <typeinfo>

namespace troupe::models {

namespace {

/// Casts to the class `Layer` only if the layer is of exactly this class: a
/// derived class may compute something else.
/// @returns null if it is of another class.
template <class Layer>
const Layer* exactly(const layer& x) {
  return typeid(x) == typeid(Layer) ? static_cast<const Layer*>(&x) : nullptr;
}

/// Runs a convolution and the pooling after it as one op.
/// @returns an empty tensor if these two layers are not such a pair.
tensor convolve_and_pool(const tensor& input, const layer_scope& scope,
                         std::size_t i) {
  if (i + 1 >= scope.children())
    return {};
  const auto* conv = exactly<conv2d>(scope.child(i));
  const auto* pool = exactly<max_pool2d>(scope.child(i + 1));
  if (!conv || !pool)
    return {};
  const auto conv_scope = scope.child_scope(i);
  return conv2d_max_pool(input, conv_scope[0], conv_scope[1],
                         {conv->options(), pool->options()});
}

} // namespace

void sequential::visit_settings(layer_settings& s) {
  s.layers("layers", layers);
}

shape sequential::build(const shape& input, builder& b) const {
  auto dims = input;
  for (const auto& one : layers)
    dims = b.add(one, dims);
  return dims;
}

tensor sequential::forward(const tensor& x, const layer_scope& scope) const {
  auto output = x;
  for (std::size_t i = 0; i < scope.children(); ++i) {
    if (auto both = convolve_and_pool(output, scope, i)) {
      output = std::move(both);
      ++i;
    } else {
      output = scope.forward(i, output);
    }
  }
  return output;
}

} // namespace troupe::models
