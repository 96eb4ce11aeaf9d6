#include "troupe/models/layer.hpp"

#include "troupe/models/detail/names.hpp"
#include "troupe/models/table_source.hpp"
#include "troupe/tensors/ops/embedding_lookup.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::models {

namespace {

/// Returns the product of the extents. -1: an extent is below 1, or the product
/// exceeds `limit`.
template <class Extents>
std::int64_t product_within(const Extents& extents, std::int64_t limit) {
  std::int64_t product = 1;
  for (const auto extent : extents)
    if (extent < 1 || __builtin_mul_overflow(product, extent, &product)
        || product > limit)
      return -1;
  return product;
}

std::string text_of(std::span<const std::int64_t> extents) {
  std::string text;
  for (const auto extent : extents)
    text += (text.empty() ? "[" : ", ") + std::to_string(extent);
  return text + "]";
}

} // namespace

void layer::visit_settings(layer_settings&) {}

tensor layer_scope::lookup(std::size_t i, const tensor& rows) const {
  const auto parameter = node_->parameters.at(i);
  if (options_.tables)
    return options_.tables->lookup(parameter, rows);
  const auto table = variables_[parameter].value();
  return embedding_lookup(table, rows.to(table.device()));
}

builder::builder(std::string_view source, parameter_declarations& declared,
                 layer_node& node, std::int64_t categories)
  : source_{source},
    declared_{&declared},
    node_{&node},
    categories_{categories} {}

void builder::parameter(std::string_view name,
                        std::initializer_list<std::int64_t> extents,
                        const initializer& initial) {
  parameter(name, std::span{extents.begin(), extents.size()}, initial);
}

void builder::parameter(std::string_view name,
                        std::span<const std::int64_t> extents,
                        const initializer& initial) {
  const auto elements =
    extents.size() > shape::max_rank
      ? -1
      : product_within(extents, max_model_parameters - declared_->elements);
  if (elements < 0)
    refuse("cannot have the parameter " + std::string{name} + " of shape "
           + text_of(extents) + ": a model has at most "
           + std::to_string(max_model_parameters)
           + " parameters; make its layers smaller");
  node_->parameters.push_back(declared_->specs.size());
  declared_->specs.push_back(
    {node_->name + "/" + std::string{name}, shape{extents}});
  declared_->initializers.push_back(initial);
  declared_->elements += elements;
}

void builder::table(std::string_view name, std::int64_t rows,
                    std::int64_t row_elements, const initializer& initial) {
  parameter(name, {rows, row_elements}, initial);
  declared_->specs.back().is_table = true;
}

shape builder::add(const layer_ptr& child, const shape& input) {
  if (!child)
    throw std::logic_error("a layer of " + node_->path + " is null");
  auto& node = node_->children.emplace_back();
  node.instance = child;
  node.path = (node_->path.empty() ? "" : node_->path + ".") + "layers["
              + std::to_string(node_->children.size() - 1) + "]";
  node.input = input;
  builder inner{source_, *declared_, node, categories_};
  const auto name = name_of(*child);
  node.name = node_->name + (node_->name.empty() ? "" : "/") + name;
  for (const auto& other : node_->children)
    if (&other != &node && other.name == node.name)
      inner.refuse("has the name of " + other.path + ", "
                   + detail::in_quotes(name) + "; rename one of them");
  node.output = child->build(input, inner);
  if (node.output.rank() >= shape::max_rank
      || product_within(node.output, max_example_elements) < 0)
    inner.refuse("would return " + to_string(node.output)
                 + " for one example, but at most "
                 + std::to_string(max_example_elements)
                 + " elements are allowed; make it smaller");
  return node.output;
}

/// Returns the name of `child`. If this name is empty, returns the type of
/// `child` and a number. The number counts the siblings of this type so far,
/// including `child`.
std::string builder::name_of(const layer& child) const {
  if (!child.name.empty())
    return child.name;
  const auto same = std::ranges::count_if(node_->children, [&](auto& x) {
    return x.instance->type() == child.type();
  });
  return std::string{child.type()} + "_" + std::to_string(same);
}

void builder::refuse(const std::string& reason) const {
  throw std::invalid_argument(source_ + ": " + node_->path + " ("
                              + std::string{node_->instance->type()} + ") "
                              + reason);
}

} // namespace troupe::models
