#include "troupe/models/layers/sequential.hpp"

#include "troupe/models/layers/conv2d.hpp"
#include "troupe/models/layers/max_pool2d.hpp"
#include "troupe/tensors/ops/conv2d_max_pool.hpp"

#include <typeinfo>

namespace troupe::models {

namespace {

/// Casts a layer to the class `Layer`. A layer of a derived class does not
/// match, because it may compute something else.
/// @returns the layer. Null: the layer is not of exactly this class.
template <class Layer>
const Layer* exactly(const layer& x) {
  return typeid(x) == typeid(Layer) ? static_cast<const Layer*>(&x) : nullptr;
}

/// Runs layers `i` and `i + 1` as one op, if they are a convolution and a
/// pooling.
/// @returns the output of layer `i + 1`. Empty: the two layers are not such a
///          pair.
tensor convolve_and_pool(const tensor& input, const layer_scope& scope,
                         std::size_t i) {
  if (i + 1 >= scope.children())
    return {};
  const auto* conv = exactly<conv2d_layer>(scope.child(i));
  const auto* pool = exactly<max_pool2d_layer>(scope.child(i + 1));
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
