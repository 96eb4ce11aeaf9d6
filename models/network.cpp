#include "troupe/models/network.hpp"

#include "troupe/models/detail/names.hpp"
#include "troupe/models/detail/network_plan.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <stdexcept>

namespace troupe::models {

network::network(const model_description& from, models::precision precision)
  : description_{parse(to_json_text(from),
                       "the model " + detail::in_quotes(from.name))},
    precision_{precision} {
  detail::network_plan made{description_,
                            "the model " + detail::in_quotes(from.name)};
  root_ = std::move(made.root);
  declared_ = std::move(made.declared);
}

void network::initialize(troupe::parameters& destination,
                         std::uint64_t seed) const {
  check_variables(destination.variables());
  // On a device, the values are drawn in a copy, so that they have the same
  // bits as on the CPU.
  auto drawn = destination.values(0).to({});
  const auto all = drawn.mutable_data<float>();
  for (std::size_t i = 0; i < declared_.specs.size(); ++i) {
    const auto& dims = declared_.specs[i].dims;
    declared_.initializers[i].fill(
      all.subspan(destination.offset(i), dims.elements()), dims,
      initial_key(seed, static_cast<std::uint32_t>(i)));
  }
  for (std::uint32_t copy = 0; copy < destination.copies(); ++copy)
    if (auto values = destination.values(copy);
        !values.shares_storage_with(drawn))
      values.copy_from(drawn);
}

void network::check_input(const shape& example) const {
  if (example != input())
    throw std::invalid_argument(
      "the model " + detail::in_quotes(name()) + " takes examples of shape "
      + to_string(input()) + ", but these are " + to_string(example)
      + "; give other data or a model with this input");
}

void network::check_batch(const shape& inputs) const {
  if (inputs == input()) {
    std::vector<std::int64_t> batch{1};
    batch.insert(batch.end(), inputs.begin(), inputs.end());
    throw std::invalid_argument(
      "the model " + detail::in_quotes(name())
      + " takes batches, but these inputs " + to_string(inputs)
      + " have the shape of one example; reshape them to "
      + to_string(shape{batch}));
  }
  check_input(inputs.rank() == 0 ? shape{} : inputs.axes(1, inputs.rank()));
}

tensor layer_scope::forward(std::size_t i, const tensor& x) const {
  auto y = child(i).forward(x, child_scope(i));
  if (y.type() != type_of(precision_))
    throw std::logic_error(
      "the layer " + detail::in_quotes(node_->children.at(i).name)
      + " returned " + to_string(y.spec()) + ", but the model computes in "
      + std::string{troupe::to_string(type_of(precision_))}
      + "; convert the result with as()");
  return y;
}

void network::check_categories(const tensor_spec* categories,
                               std::int64_t n) const {
  const auto wanted = this->categories();
  const auto fits = [&](const tensor_spec& x) {
    return wanted > 0 && x.dims == shape{n, wanted}
           && (x.type == dtype::int32 || x.type == dtype::int64);
  };
  if (categories ? fits(*categories) : wanted == 0)
    return;
  const auto model = "the model " + detail::in_quotes(name());
  if (wanted == 0)
    throw std::invalid_argument(
      model + " takes no categories, but these examples have some: "
      + to_string(*categories) + "; leave them out");
  throw std::invalid_argument(
    model + " takes categories " + to_string(shape{n, wanted})
    + ", int32 or int64, but these examples have "
    + (categories
         ? to_string(*categories) + "; give the categories of each example"
         : std::string{"none; give the batch a tensor \"categories\""}));
}

tensor network::forward(const model_inputs& inputs,
                        std::span<const variable> variables,
                        const forward_options& options) const {
  const auto& numbers = inputs.numbers;
  check_batch(numbers.dims());
  if (numbers.type() != dtype::float32)
    throw std::invalid_argument("the model " + detail::in_quotes(name())
                                + " takes float32, but these examples are "
                                + to_string(numbers.spec()) + "; convert them");
  const auto categories = inputs.categories.spec();
  check_categories(inputs.categories ? &categories : nullptr,
                   numbers.dims().front());
  check_variables(variables);
  const flush_denormals flushing;
  const tf32_scope products{precision_ == precision::tf32};
  const layer_scope scope{root_, variables, options, precision_,
                          inputs.categories};
  return root_.instance->forward(numbers.as(type_of(precision_)), scope)
    .as(dtype::float32);
}

void network::check_variables(std::span<const variable> variables) const {
  if (variables.size() != declared_.specs.size())
    throw std::logic_error(
      std::to_string(variables.size()) + " variables for the "
      + std::to_string(declared_.specs.size()) + " parameters of the model "
      + detail::in_quotes(name()));
}

} // namespace troupe::models
