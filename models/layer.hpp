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

/// One step of a model's computation: a description of itself, the parameters
/// that it needs, and what it computes from them. A layer holds settings and no
/// state: parameters belong to whoever runs the network, so one layer serves
/// any number of replicas at once.
class layer {
public:
  virtual ~layer() = default;

  /// What descriptions call this kind of layer: "dense".
  virtual std::string_view type() const = 0;

  /// Lists the settings; none unless overridden.
  virtual void list(settings& s);

  /// Declares the parameters, and whatever layers this one is made of, for an
  /// input of this shape.
  /// @shape input  one example, without the batch.
  /// @returns the shape of one example's output.
  virtual shape build(const shape& input, builder& b) const = 0;

  /// @shape x  [n, input...] float32, any n.
  /// @returns [n, output...] float32.
  virtual tensor forward(const tensor& x, const place& own) const = 0;

  /// In its model; empty: the type and a number, as in "dense_2".
  std::string name;
};

/// A layer as it stands in a network.
struct layer_node {
  layer_ptr what;
  std::string path; ///< In the description: "layers[2]".
  std::string
    name; ///< With the names of the layers that it is in: "body/dense_1".
  shape input;
  shape output;
  std::vector<std::size_t>
    parameters; ///< Its own, as indices into the network's.
  std::vector<layer_node> children;
};

/// What a layer finds in `forward`: its own parameters, in the order in which
/// `build` declared them, the layers that it is made of, and how the model is
/// called.
class place {
public:
  place(const layer_node& node, std::span<const variable> all,
        const forward_options& how = {})
    : node_{&node}, all_{all}, how_{how} {}

  /// Whether the model is called in training.
  bool training() const { return how_.training; }

  /// The parameter's value on the replica that runs.
  tensor operator[](std::size_t i) const {
    return all_[node_->parameters.at(i)].value();
  }

  std::size_t children() const { return node_->children.size(); }

  /// The child that `build` added as number `i`, and what it finds.
  const layer& child(std::size_t i) const {
    return *node_->children.at(i).what;
  }
  place of_child(std::size_t i) const {
    return {node_->children.at(i), all_, how_};
  }

  /// Runs that child.
  tensor forward(std::size_t i, const tensor& x) const {
    return child(i).forward(x, of_child(i));
  }

private:
  const layer_node* node_;
  std::span<const variable> all_;
  forward_options how_;
};

/// The parameters that a network's layers declared, in order.
struct declarations {
  std::vector<parameter_spec> specs; ///< Named "dense_1/kernel".
  std::vector<initializer> initializers;
  std::int64_t elements = 0; ///< Of all.
};

/// What a layer declares its parameters to while a network is built.
class builder {
public:
  /// @param where what the sentences of errors begin with: a file's name.
  builder(std::string_view where, declarations& declared, layer_node& node);

  /// The layer has a parameter of these extents, filled by `initial` before
  /// training.
  /// @errors throws std::invalid_argument if the model grows beyond
  ///         `largest_model` parameters; nothing was allocated for them.
  void parameter(std::string_view name,
                 std::initializer_list<std::int64_t> extents,
                 const initializer& initial);

  /// The layer is made of this one, among others.
  /// @returns the shape of its output.
  shape add(const layer_ptr& what, const shape& input);

  /// The layer cannot be built: throws std::invalid_argument, the sentence of
  /// which begins with where the layer stands and goes on with `why`.
  [[noreturn]] void refuse(const std::string& why) const;

private:
  std::string name_of(const layer& what) const;

  std::string where_;
  declarations* declared_;
  layer_node* node_;
};

/// Most parameters of a model (8 GiB of float32).
inline constexpr std::int64_t largest_model = std::int64_t{1} << 31;
/// Most elements of one example as a layer takes or gives it.
inline constexpr std::int64_t largest_example = std::int64_t{1} << 28;
/// Deepest that layers may stand in layers.
inline constexpr std::size_t deepest_nesting = 32;

using layer_factory = layer_ptr (*)();
void register_layer(layer_factory make);

/// Makes a kind of layer known to descriptions, under what its `type()` says.
/// Call it before the first description that names it is read, in `main` for
/// instance; from any thread.
/// @errors throws std::logic_error if the name is taken, or is no name.
template <std::derived_from<layer> Layer>
requires std::default_initializable<Layer>
void register_layer() {
  register_layer(+[]() -> layer_ptr { return std::make_shared<Layer>(); });
}

/// @returns a layer with its default settings; null if no such type is known.
layer_ptr make_layer(std::string_view type);

/// The types that descriptions may name, sorted.
std::vector<std::string> layer_types();

} // namespace troupe::models
