#pragma once

#include "troupe/models/description.hpp"
#include "troupe/models/layer.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::models {

/// A model ready to compute. It holds no parameters: any number of replicas may
/// run one network at once, each with its own.
///
///   network net{lenet()};
///   parameters own{net.parameters()};
///   net.initialize(own, 1);
///   auto logits = net.forward(images, own.variables());
class network {
public:
  /// Builds what the description says when it is written as JSON and read back,
  /// so that what runs here is what a saved file makes elsewhere.
  /// @errors throws std::invalid_argument as `parse` does; also for a layer
  ///         whose class was not registered.
  explicit network(const model_description& from);

  const std::string& name() const { return description_.name; }
  const model_description& description() const { return description_; }

  const shape& input() const { return root_.input; }   ///< Of one example.
  const shape& output() const { return root_.output; } ///< Of one example.

  /// Names and shapes, in the order that files and hashes keep.
  const std::vector<parameter_spec>& parameters() const {
    return declared_.specs;
  }

  /// The layers in their places; the root is the row of all.
  const layer_node& root() const { return root_; }

  /// Fills every copy with the same initial values.
  /// @param into made of `parameters()`.
  void initialize(troupe::parameters& into, std::uint64_t seed) const;

  /// Refuses examples of another shape.
  /// @errors throws std::invalid_argument with both shapes.
  void check_input(const shape& example) const;

  /// @shape x  [n, input...] float32, any n
  /// @param own  the variables of a `parameters` made of `parameters()`.
  /// @param how  by default not as in training.
  /// @returns [n, output...] float32
  /// @errors throws std::invalid_argument with both shapes.
  tensor forward(const tensor& x, std::span<const variable> own,
                 const forward_options& how = {}) const;

private:
  void check_variables(std::span<const variable> own) const;

  model_description description_;
  layer_node root_;
  declarations declared_;
};

/// The familiar table of layers, output shapes and parameters.
std::string summary(const network& x);

} // namespace troupe::models
