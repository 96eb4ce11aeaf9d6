#include "troupe/models/detail/names.hpp"
#include "troupe/models/layers.hpp"

#include <map>
#include <mutex>
#include <stdexcept>

namespace troupe::models {

namespace {

template <class Layer>
layer_ptr make() {
  return std::make_shared<Layer>();
}

/// Factories of the built-in layers.
constexpr layer_factory built_in[] = {make<category_embedding_layer>,
                                      make<conv2d_layer>,
                                      make<dense_layer>,
                                      make<dropout_layer>,
                                      make<flatten>,
                                      make<relu>,
                                      make<max_pool2d_layer>,
                                      make<sequential>};

struct layer_makers {
  std::mutex mutex;
  std::map<std::string, layer_factory, std::less<>> makers;

  layer_makers() {
    for (const auto maker : built_in)
      makers.emplace(maker()->type(), maker);
  }
};

layer_makers& layer_registry() {
  static layer_makers the_one;
  return the_one;
}

} // namespace

void register_layer(layer_factory maker) {
  const std::string type{maker()->type()};
  if (!detail::is_name(type))
    throw std::logic_error("a layer type cannot be named "
                           + detail::in_quotes(type) + ": a name is "
                           + std::string{detail::name_rule});
  auto& all = layer_registry();
  std::lock_guard guard{all.mutex};
  const auto [at, added] = all.makers.emplace(type, maker);
  if (!added)
    throw std::logic_error("the layer type " + detail::in_quotes(type)
                           + " is registered already; choose another name");
}

layer_ptr make_layer(std::string_view type) {
  auto& all = layer_registry();
  layer_factory maker = nullptr;
  {
    std::lock_guard guard{all.mutex};
    if (const auto at = all.makers.find(type); at != all.makers.end())
      maker = at->second;
  }
  return maker ? maker() : nullptr;
}

std::vector<std::string> layer_types() {
  auto& all = layer_registry();
  std::lock_guard guard{all.mutex};
  std::vector<std::string> types;
  for (const auto& [type, maker] : all.makers)
    types.push_back(type);
  return types;
}

} // namespace troupe::models
