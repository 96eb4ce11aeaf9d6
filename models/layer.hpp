#pragma once

#include "troupe/models/forward_options.hpp"
#include "troupe/models/settings.hpp"
#include "troupe/tensors/variable.hpp"

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

class builder;
class layer_scope;

/// One stage of a model's computation. It declares its settings and parameters,
/// and computes its output from them. A layer has no state: the parameters are
/// passed to `forward`, so replicas may share a layer concurrently.
class layer {
public:
  virtual ~layer() = default;

  /// Type name in descriptions: "dense".
  virtual std::string_view type() const = 0;

  /// Visits all settings. The default visits none.
  virtual void visit_settings(layer_settings& s);

  /// Declares the parameters and the child layers for an input of this shape.
  /// @shape input one example, without the batch axis.
  /// @returns the shape of the output for one example.
  virtual shape build(const shape& input, builder& b) const = 0;

  /// Computes the output of a batch.
  /// @shape x  [n, input...] float32, any n.
  /// @returns [n, output...] float32.
  virtual tensor forward(const tensor& x, const layer_scope& scope) const = 0;

  /// Name in the model. Empty: the type and a number, as in "dense_2".
  std::string name;
};

/// A layer in the tree of a network.
struct layer_node {
  layer_ptr instance;
  std::string path; ///< Path in the description: "layers[2]".
  std::string name; ///< Prefixed by its ancestors' names: "body/dense_1".
  shape input;
  shape output;
  /// Indices of its own parameters in the network.
  std::vector<std::size_t> parameters;
  std::vector<layer_node> children;
};

/// Context of a call of `forward`: the layer's own parameters in the order of
/// their declaration in `build`, its child layers, and the options of the
/// forward pass.
class layer_scope {
public:
  layer_scope(const layer_node& node, std::span<const variable> variables,
              const forward_options& options = {})
    : node_{&node}, variables_{variables}, options_{options} {}

  /// True if the model is called in training.
  bool training() const { return options_.training; }

  /// Value of parameter `i` on the current replica.
  tensor operator[](std::size_t i) const {
    return variables_[node_->parameters.at(i)].value();
  }

  std::size_t children() const { return node_->children.size(); }

  /// Child layer `i`, in the order in which `build` added them.
  const layer& child(std::size_t i) const {
    return *node_->children.at(i).instance;
  }
  /// Context of child layer `i`.
  layer_scope child_scope(std::size_t i) const {
    return {node_->children.at(i), variables_, options_};
  }

  /// Runs child layer `i`.
  tensor forward(std::size_t i, const tensor& x) const {
    return child(i).forward(x, child_scope(i));
  }

private:
  const layer_node* node_;
  std::span<const variable> variables_;
  forward_options options_;
};

/// Parameters declared by the layers of a network, in order.
struct parameter_declarations {
  std::vector<parameter_spec> specs; ///< Named "dense_1/kernel".
  std::vector<initializer> initializers;
  std::int64_t elements = 0; ///< Total number of elements.
};

/// Collects the parameters and child layers that a layer declares in `build`.
class builder {
public:
  /// @param source Start of error messages: a file name.
  builder(std::string_view source, parameter_declarations& declared,
          layer_node& node);

  /// Declares a parameter, which `initial` fills before training.
  /// @errors throws std::invalid_argument if the model would exceed
  ///         `max_model_parameters`. Nothing is allocated before this check.
  void parameter(std::string_view name,
                 std::initializer_list<std::int64_t> extents,
                 const initializer& initial);

  /// Adds a child layer.
  /// @returns the shape of its output.
  shape add(const layer_ptr& child, const shape& input);

  /// Reports that the layer cannot be built.
  /// @errors throws std::invalid_argument with the source, the path of the
  ///         layer, and `reason`.
  [[noreturn]] void refuse(const std::string& reason) const;

private:
  std::string name_of(const layer& child) const;

  std::string source_;
  parameter_declarations* declared_;
  layer_node* node_;
};

/// Maximum number of parameters of a model (8 GiB of float32).
inline constexpr std::int64_t max_model_parameters = std::int64_t{1} << 31;
/// Maximum number of elements of one example, as input or output of a layer.
inline constexpr std::int64_t max_example_elements = std::int64_t{1} << 28;
/// Maximum depth of nested layers.
inline constexpr std::size_t max_nesting_depth = 32;

using layer_factory = layer_ptr (*)();
void register_layer(layer_factory make);

/// Registers a layer type for use in descriptions, under the name that `type()`
/// returns. Call it before a description that names it is read, for instance at
/// the start of `main`. Thread-safe.
/// @errors throws std::logic_error if the name is registered or invalid.
template <std::derived_from<layer> Layer>
requires std::default_initializable<Layer>
void register_layer() {
  register_layer(+[]() -> layer_ptr { return std::make_shared<Layer>(); });
}

/// @returns a layer with its default settings; null if no such type is known.
layer_ptr make_layer(std::string_view type);

/// All types that a description may name, sorted.
std::vector<std::string> layer_types();

} // namespace troupe::models
