#pragma once

#include "troupe/models/description.hpp"
#include "troupe/models/layer.hpp"
#include "troupe/models/precision.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::models {

/// What a model computes with. Most models have no categories, so a tensor of
/// numbers converts to inputs.
struct model_inputs {
  model_inputs(tensor numbers, tensor categories = {})
    : numbers{std::move(numbers)}, categories{std::move(categories)} {}

  tensor numbers; ///< [n, input...] float32
  /// [n, categories of the model] int32 or int64, on the CPU. Empty: none.
  tensor categories;
};

/// The layers of a model, ready to compute. A network holds no parameter
/// values, so replicas may use one network concurrently, each with its own
/// parameters.
///
///   network net{lenet()};
///   parameters own{net.parameters()};
///   net.initialize(own, 1);
///   auto logits = net.forward(images, own.variables());
class network {
public:
  /// Writes the description as JSON and builds the network from that JSON.
  /// Therefore another process that reads this JSON from a saved file builds
  /// the same network.
  /// @param precision the dtype in which the layers compute. It is not a part
  ///        of the description.
  /// @errors throws std::invalid_argument if `parse` rejects that JSON, or if
  ///         the class of a layer is not registered.
  explicit network(const model_description& from,
                   models::precision precision = models::precision::float32);

  const std::string& name() const { return description_.name; }
  const model_description& description() const { return description_; }
  models::precision precision() const { return precision_; }

  /// Returns the shape of one example, without the batch axis.
  const shape& input() const { return root_.input; }

  /// Returns the number of categories of one example. Zero: the model has none.
  std::int64_t categories() const { return description_.categories; }

  /// Returns the shape of the output for one example, without the batch axis.
  const shape& output() const { return root_.output; }

  /// Returns names and shapes of the parameters. Saved files and hashes contain
  /// the parameters in this order.
  const std::vector<parameter_spec>& parameters() const {
    return declared_.specs;
  }

  /// Returns what sets the values of a parameter before training.
  const initializer& initial(std::size_t parameter) const {
    return declared_.initializers.at(parameter);
  }

  /// Returns the root of the tree of layers. The root is a `sequential` layer
  /// that contains all other layers.
  const layer_node& root() const { return root_; }

  /// Fills every copy of the parameters with the same initial values.
  /// @param destination parameters that were made from `parameters()` of this
  ///        network.
  void initialize(troupe::parameters& destination, std::uint64_t seed) const;

  /// Checks the shape of one example.
  /// @errors throws std::invalid_argument with `example` and `input()` if they
  ///         differ.
  void check_input(const shape& example) const;

  /// @errors throws std::invalid_argument unless `inputs` is a batch of such
  ///         examples.
  void check_batch(const shape& inputs) const;

  /// Checks the categories of a batch of n examples.
  /// @param categories Null: the batch has none.
  /// @errors throws std::invalid_argument if the model has others.
  void check_categories(const tensor_spec* categories, std::int64_t n) const;

  /// Computes the output of a batch. With `precision::bf16`, the layers compute
  /// in bfloat16, and the output is converted.
  /// @param inputs any number of examples
  /// @param variables variables of the parameters that were made from
  ///        `parameters()` of this network. If the options have a source of
  ///        tables, those of tables are not used.
  /// @param options by default, the call is not a training step.
  /// @returns [n, output...] float32
  /// @errors throws std::invalid_argument if the inputs have another shape or
  ///         dtype.
  tensor forward(const model_inputs& inputs,
                 std::span<const variable> variables,
                 const forward_options& options = {}) const;

private:
  void check_variables(std::span<const variable> variables) const;

  model_description description_;
  layer_node root_;
  parameter_declarations declared_;
  models::precision precision_;
};

/// Returns a table of layers, output shapes and parameter counts, in the format
/// of Keras.
std::string summary(const network& net);

} // namespace troupe::models
