#include "troupe/training/loop/model/example_losses.hpp"

#include "troupe/tensors/ops/binary.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

tensor weights_of_examples(const tensor& given, std::int64_t rows) {
  if (!are_weights(given.dims(), rows))
    throw std::logic_error("the weights of " + std::to_string(rows)
                           + " examples are " + to_string(given.spec())
                           + "; there is one weight for each example");
  return given.as(dtype::float32).reshaped({rows});
}

} // namespace

tensor weights_of_classes(const tensor& labels,
                          std::span<const float> class_weights) {
  if (class_weights.empty())
    return {};
  tensor out{labels.dims()};
  const auto to = out.mutable_data<float>();
  const auto from = labels.data<std::int32_t>();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto label = static_cast<std::size_t>(from[i]);
    if (label >= class_weights.size())
      throw std::logic_error(
        "label " + std::to_string(from[i]) + " has none of "
        + std::to_string(class_weights.size()) + " class weights");
    to[i] = class_weights[label];
  }
  return out;
}

void check_class_weights(const models::loss& loss, const models::network& net,
                         std::int64_t classes, std::span<const float> weights) {
  if (weights.empty())
    return;
  if (loss.targets != models::target_kind::classes)
    throw std::invalid_argument("class weights need class labels, but the loss "
                                "is \""
                                + loss.name
                                + "\"; give the data weights instead");
  const auto count = static_cast<std::int64_t>(weights.size());
  const auto& outputs = net.output();
  if (count != classes && (outputs.rank() != 1 || count != outputs[0]))
    throw std::invalid_argument(std::to_string(count) + " class weights for "
                                + std::to_string(classes)
                                + " classes; give one for each class");
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!(weights[i] >= 0 && std::isfinite(weights[i])))
      throw std::invalid_argument("the weight of class " + std::to_string(i)
                                  + " is " + std::to_string(weights[i])
                                  + "; a weight is a number of at least 0");
}

bool are_weights(const shape& weights, std::int64_t rows) {
  return weights == shape{rows} || weights == shape{rows, 1};
}

tensor example_losses(const models::loss& loss, const tensor& outputs,
                      const batch& rows, const tensor& by_class) {
  const auto on = outputs.device();
  auto losses = models::compute_losses(loss, outputs, rows.labels.to(on));
  if (const auto* weights = rows.find("weights"))
    losses = losses * weights_of_examples(*weights, rows.rows()).to(on);
  if (by_class)
    losses = losses * by_class.to(on);
  return losses;
}

} // namespace troupe
