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
class place;

/// One stage of a model's computation. It declares its settings and parameters,
/// and computes its output from them. A layer has no state: the parameters are
/// passed to `forward`, so replicas may share a layer concurrently.
class layer {
public:
  virtual ~layer() = default;

  /// Type name in descriptions: "dense".
  virtual std::string_view type() const = 0;

  /// Visits all settings. The default visits none.
  virtual void list(settings& s);

  /// Declares the parameters and the child layers for an input of this shape.
  /// @shape input one example, without the batch axis.
  /// @returns the shape of the output for one example.
  virtual shape build(const shape& input, builder& b) const = 0;

  /// Computes the output of a batch.
  /// @shape x  [n, input...] float32, any n.
  /// @returns [n, output...] float32.
  virtual tensor forward(const tensor& x, const place& own) const = 0;

  /// Name in the model. Empty: the type and a number, as in "dense_2".
  std::string name;
};

/// A layer in the tree of a network.
struct layer_node {
  layer_ptr what;
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
class place {
public:
  place(const layer_node& node, std::span<const variable> all,
        const forward_options& how = {})
    : node_{&node}, all_{all}, how_{how} {}

  /// True if the model is called in training.
  bool training() const { return how_.training; }

  /// Value of parameter `i` on the current replica.
  tensor operator[](std::size_t i) const {
    return all_[node_->parameters.at(i)].value();
  }

  std::size_t children() const { return node_->children.size(); }

  /// Child layer `i`, in the order in which `build` added them.
  const layer& child(std::size_t i) const {
    return *node_->children.at(i).what;
  }
  /// Context of child layer `i`.
  place of_child(std::size_t i) const {
    return {node_->children.at(i), all_, how_};
  }

  /// Runs child layer `i`.
  tensor forward(std::size_t i, const tensor& x) const {
    return child(i).forward(x, of_child(i));
  }

private:
  const layer_node* node_;
  std::span<const variable> all_;
  forward_options how_;
};

/// Parameters declared by the layers of a network, in order.
struct declarations {
  std::vector<parameter_spec> specs; ///< Named "dense_1/kernel".
  std::vector<initializer> initializers;
  std::int64_t elements = 0; ///< Total number of elements.
};

/// Collects the parameters and child layers that a layer declares in `build`.
class builder {
public:
  /// @param source Start of error messages: a file name.
  builder(std::string_view where, declarations& declared, layer_node& node);

  /// Declares a parameter, which `initial` fills before training.
  /// @errors throws std::invalid_argument if the model would exceed
  ///         `max_model_parameters`. Nothing is allocated before this check.
  void parameter(std::string_view name,
                 std::initializer_list<std::int64_t> extents,
                 const initializer& initial);

  /// Adds a child layer.
  /// @returns the shape of its output.
  shape add(const layer_ptr& what, const shape& input);

  /// Reports that the layer cannot be built.
  /// @errors throws std::invalid_argument with the source, the path of the
  ///         layer, and `reason`.
  [[noreturn]] void refuse(const std::string& why) const;

private:
  std::string name_of(const layer& what) const;

  std::string where_;
  declarations* declared_;
  layer_node* node_;
};

/// Maximum number of parameters of a model (8 GiB of float32).
inline constexpr std::int64_t largest_model = std::int64_t{1} << 31;
/// Maximum number of elements of one example, as input or output of a layer.
inline constexpr std::int64_t largest_example = std::int64_t{1} << 28;
/// Maximum depth of nested layers.
inline constexpr std::size_t deepest_nesting = 32;

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
