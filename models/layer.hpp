#pragma once

#include "troupe/models/forward_options.hpp"
#include "troupe/models/precision.hpp"
#include "troupe/models/settings.hpp"
#include "troupe/tensors/variable.hpp"

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::models {

class builder;
class layer_scope;

/// A layer of a model. It declares its settings and parameters, and computes
/// its output from its input and its parameters. A layer has no state: its
/// parameters are an argument of `forward`, so replicas may use one layer
/// concurrently.
class layer {
public:
  layer() = default;
  explicit layer(std::string own_name) : name{std::move(own_name)} {}
  virtual ~layer() = default;

  /// Returns the type name in descriptions, such as "dense".
  virtual std::string_view type() const = 0;

  /// Passes all settings of the layer to `s`. The default passes none.
  virtual void visit_settings(layer_settings& s);

  /// Declares the parameters and the child layers for an input of this shape.
  /// @shape input one example, without the batch axis.
  /// @returns the shape of the output for one example.
  virtual shape build(const shape& input, builder& b) const = 0;

  /// Computes the output of a batch.
  /// @shape x  [n, input...], any n; float32, or bfloat16 in a model with
  ///        `precision::bf16`. Its parameters have the dtype of x. A layer that
  ///        consists of ops need not know it.
  /// @returns [n, output...] of the dtype of x.
  virtual tensor forward(const tensor& x, const layer_scope& scope) const = 0;

  /// Name of the layer in the model. Empty: the model names the layer by its
  /// type and a number, such as "dense_2".
  std::string name;
};

/// A layer in the tree of a network.
struct layer_node {
  layer_ptr instance;
  std::string path; ///< Path in the description: "layers[2]".
  std::string name; ///< Names of the ancestors and the layer: "body/dense_1".
  shape input;
  shape output;
  /// Indices of the layer's own parameters among all parameters of the network.
  std::vector<std::size_t> parameters;
  std::vector<layer_node> children;
};

/// Context of a call of `forward`. The scope gives a layer its own parameters,
/// in the order in which `build` declared them, and its child layers. It also
/// has the categories of the examples, and the options of the forward pass.
class layer_scope {
public:
  layer_scope(const layer_node& node, std::span<const variable> variables,
              const forward_options& options = {},
              models::precision precision = models::precision::float32,
              tensor categories = {})
    : node_{&node},
      variables_{variables},
      options_{options},
      precision_{precision},
      categories_{std::move(categories)} {}

  /// Returns true in a training step.
  bool training() const { return options_.training; }

  /// Returns the value of parameter `i` on the current replica, in the dtype in
  /// which the model computes. The gradient flows back in float32.
  /// @cost with `precision::bf16`, each call converts the parameter.
  tensor operator[](std::size_t i) const {
    return variables_[node_->parameters.at(i)].value().as(type_of(precision_));
  }

  /// Returns rows of the table that `build` declared as parameter `i`, in
  /// float32. The gradient of the table is sparse.
  /// @param rows on the CPU.
  /// @shape rows [i...] int64; returns [i..., d...] of a table [n, d...]
  /// @errors as `embedding_lookup`
  tensor lookup(std::size_t i, const tensor& rows) const;

  /// Returns the categories of the batch, [n, categories of the model] int32 or
  /// int64, on the CPU. Empty: the model has none.
  const tensor& categories() const { return categories_; }

  std::size_t children() const { return node_->children.size(); }

  /// Returns child layer `i`, in the order in which `build` added the layers.
  const layer& child(std::size_t i) const {
    return *node_->children.at(i).instance;
  }
  /// Returns the context of child layer `i`.
  layer_scope child_scope(std::size_t i) const {
    return {node_->children.at(i), variables_, options_, precision_,
            categories_};
  }

  /// Runs child layer `i`.
  /// @errors throws std::logic_error that names the layer if its result does
  ///         not have the dtype in which the model computes.
  tensor forward(std::size_t i, const tensor& x) const;

private:
  const layer_node* node_;
  std::span<const variable> variables_;
  forward_options options_;
  models::precision precision_;
  tensor categories_;
};

/// Parameters that the layers of a network declare, in order of declaration.
struct parameter_declarations {
  /// The name of a parameter consists of `layer_node::name` and its name within
  /// the layer: "dense_1/kernel".
  std::vector<parameter_spec> specs;
  std::vector<initializer> initializers;
  std::int64_t elements = 0; ///< Total number of elements.
};

/// Collects the parameters and child layers that a layer declares in `build`.
class builder {
public:
  /// @param source start of error messages, such as a file name.
  /// @param categories number of categories of one example.
  builder(std::string_view source, parameter_declarations& declared,
          layer_node& node, std::int64_t categories = 0);

  /// Declares a parameter. `initial` sets its values before training.
  /// @errors throws std::invalid_argument if the model would exceed
  ///         `max_model_parameters`. No memory is allocated before this check.
  void parameter(std::string_view name, std::span<const std::int64_t> extents,
                 const initializer& initial);
  void parameter(std::string_view name,
                 std::initializer_list<std::int64_t> extents,
                 const initializer& initial);

  /// Declares a parameter of which a step reads few rows
  /// (`layer_scope::lookup`). `fit` updates only the rows that occur in a step.
  /// @errors as `parameter`.
  void table(std::string_view name, std::int64_t rows,
             std::int64_t row_elements, const initializer& initial);

  /// Number of categories of one example. Zero: the model has none.
  std::int64_t categories() const { return categories_; }

  /// Adds a child layer.
  /// @returns the shape of the child's output for one example.
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
  std::int64_t categories_;
};

/// Maximum number of parameters of a model (8 GiB of float32).
inline constexpr std::int64_t max_model_parameters = std::int64_t{1} << 31;
/// Maximum number of elements of one example, as input or output of a layer.
inline constexpr std::int64_t max_example_elements = std::int64_t{1} << 28;
/// Maximum depth of nested layers.
inline constexpr std::size_t max_nesting_depth = 32;

using layer_factory = layer_ptr (*)();
void register_layer(layer_factory make);

/// Registers a layer type, so that descriptions can name it. The name of the
/// type is the result of `type()`. Register a type before the program reads a
/// description with this type, for instance at the start of `main`.
/// Thread-safe.
/// @errors throws std::logic_error if the name is registered or invalid.
template <std::derived_from<layer> Layer>
requires std::default_initializable<Layer>
void register_layer() {
  register_layer(+[]() -> layer_ptr { return std::make_shared<Layer>(); });
}

/// Returns a layer of this type with default settings. Null: the type is not
/// registered.
layer_ptr make_layer(std::string_view type);

/// Returns all types that a description may name, sorted.
std::vector<std::string> layer_types();

} // namespace troupe::models
