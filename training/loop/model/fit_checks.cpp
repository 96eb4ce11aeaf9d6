#include "troupe/training/loop/model/fit_checks.hpp"

#include "troupe/training/loop/feed/batch_inputs.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {

namespace {

/// True for int32[n, 1].
bool is_column_of_numbers(const tensor_spec& labels) {
  const auto& dims = labels.dims;
  return labels.type == dtype::int32 && dims.rank() == 2 && dims[1] == 1;
}

/// Checks the labels of a batch of n examples.
/// @param labels Null: there are none.
void check_labels(const models::network& net, const models::loss& used_loss,
                  const data::dataset& batches, const tensor_spec* labels,
                  std::int64_t n, const std::string& name) {
  const auto& outputs = net.output();
  const auto loss = "the loss \"" + used_loss.name + "\"";
  if (used_loss.targets == models::target_kind::any)
    return;
  if (!labels)
    throw std::invalid_argument(loss + " compares outputs with labels, but "
                                + name + " has none");
  if (used_loss.targets == models::target_kind::classes) {
    if (batches.classes() == 0)
      throw std::invalid_argument(
        loss + " needs class numbers, but " + name + " has labels "
        + to_string(*labels)
        + (is_column_of_numbers(*labels)
             ? "; class numbers are int32[n]: reshape the labels to [n]"
             : "; use a loss for values, such as \"mean_squared_error\", or "
               "give the dataset the number of its classes"));
    if (outputs.rank() != 1 || outputs[0] < batches.classes())
      throw std::invalid_argument(
        name + " has labels of " + std::to_string(batches.classes())
        + " classes, but the model \"" + net.name() + "\" gives "
        + to_string(outputs) + "; its last layer needs a unit for each class");
    return;
  }
  if (batches.classes() > 0)
    throw std::invalid_argument(loss + " compares outputs with values, but "
                                + name
                                + " has class numbers; use "
                                  "\"softmax_cross_entropy\", or labels of "
                                  "another dtype");
  std::vector<std::int64_t> extents{n};
  extents.insert(extents.end(), outputs.begin(), outputs.end());
  if (!models::are_comparable(shape{extents}, labels->dims))
    throw std::invalid_argument(
      name + " has labels " + to_string(*labels) + ", but the model \""
      + net.name() + "\" gives " + to_string(shape{extents})
      + " for these examples; the labels have the shape of the outputs");
}

} // namespace

void check_data(const models::network& net, const models::loss& loss,
                const data::dataset& batches, std::string_view description) {
  const std::string name{description};
  if (!batches.size())
    throw std::invalid_argument(name
                                + " has no end; bound the epoch with "
                                  "take(batches)");
  if (*batches.size() == 0)
    throw std::invalid_argument(name
                                + " has no batch; provide at least one "
                                  "example");
  const auto tensors = batches.spec();
  const auto spec_of = [&](std::string_view wanted) {
    const auto found =
      std::ranges::find(tensors, wanted, &data::named_spec::name);
    return found == tensors.end() ? nullptr : &found->spec;
  };
  const auto* inputs = spec_of("inputs");
  if (!inputs)
    throw std::invalid_argument(name + " has no inputs");
  const auto& dims = inputs->dims;
  if (dims.rank() == net.input().rank())
    throw std::invalid_argument(name
                                + " yields single examples; group them with "
                                  "batch(count)");
  net.check_input(dims.axes(1, dims.rank()));
  if (net.categories() > 0)
    net.check_categories(spec_of(categories_name), dims.front());
  check_labels(net, loss, batches, spec_of("labels"), dims.front(), name);
  if (const auto* weights = spec_of("weights");
      weights && !are_weights(weights->dims, dims.front()))
    throw std::invalid_argument(name + " has weights " + to_string(*weights)
                                + " of " + std::to_string(dims.front())
                                + " examples; give one weight for each "
                                  "example");
}

void check_epochs(std::uint64_t epochs) {
  if (epochs == 0)
    throw std::invalid_argument(
      "epochs: 0 is not a valid number of epochs; give 1 or more");
}

void check_schedule(const std::optional<schedule>& used, std::uint64_t steps,
                    std::uint64_t epochs, std::uint64_t batches) {
  if (!used || used->name() == "function")
    return;
  std::uint64_t end = 0;
  if (__builtin_mul_overflow(epochs, batches, &end)
      || __builtin_add_overflow(end, steps, &end))
    end = std::numeric_limits<std::uint64_t>::max();
  used->at(end - 1);
}

void check_batch_rows(const data::dataset& batches, std::uint32_t replicas) {
  const auto rows = batches.element().dims.front();
  if (rows < std::int64_t{replicas})
    throw std::invalid_argument(
      "a batch size of " + std::to_string(rows) + " leaves some of "
      + std::to_string(replicas)
      + " replicas without an example; give a batch size of at least "
      + std::to_string(replicas));
}

} // namespace troupe
