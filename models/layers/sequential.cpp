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
tensor convolve_and_pool(const tensor& x, const place& own, std::size_t i) {
  if (i + 1 >= own.children())
    return {};
  const auto* conv = exactly<conv2d>(own.child(i));
  const auto* pool = exactly<max_pool2d>(own.child(i + 1));
  if (!conv || !pool)
    return {};
  const auto mine = own.of_child(i);
  return conv2d_max_pool(x, mine[0], mine[1],
                         {conv->options(), pool->options()});
}

} // namespace

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
  for (std::size_t i = 0; i < own.children(); ++i) {
    if (auto both = convolve_and_pool(y, own, i)) {
      y = std::move(both);
      ++i;
    } else {
      y = own.forward(i, y);
    }
  }
  return y;
}

} // namespace troupe::models
