#include "troupe/training/loop/model_state.hpp"

#include <stdexcept>

namespace troupe {

model_state::model_state(const models::model_description& architecture,
                         const update_rule& update, const models::loss& loss,
                         std::uint64_t seed,
                         std::shared_ptr<strategy_state> owner)
  : strategy{std::move(owner)},
    net{architecture},
    rule{update},
    loss{&loss},
    seed{seed},
    model_parameters{net.parameters(), strategy->copies,
                     strategy->placement.count()} {
  for (std::uint32_t copy = 0; copy < model_parameters.copies(); ++copy) {
    auto& mine = slots.emplace_back();
    for (std::size_t s = 0; s < rule.slots(); ++s)
      mine.push_back(
        tensor::zeros({static_cast<std::int64_t>(model_parameters.size())}));
  }
}

void model_state::broadcast_copy(std::uint32_t source) {
  for (std::uint32_t copy = 0; copy < model_parameters.copies(); ++copy) {
    if (copy == source)
      continue;
    model_parameters.values(copy).copy_from(model_parameters.values(source));
    for (std::size_t s = 0; s < slots[copy].size(); ++s)
      slots[copy][s].copy_from(slots[source][s]);
  }
}

void check_data(const model_state& state, const data::dataset& batches,
                std::string_view description) {
  const std::string name{description};
  if (!batches.size())
    throw std::invalid_argument(name
                                + " has no end; bound the epoch with "
                                  "take(batches)");
  if (*batches.size() == 0)
    throw std::invalid_argument(name
                                + " has no batch; provide at least one "
                                  "example");
  const auto dims = batches.element().dims;
  if (dims.rank() == state.net.input().rank())
    throw std::invalid_argument(name
                                + " yields single examples; group them with "
                                  "batch(count)");
  state.net.check_input(dims.axes(1, dims.rank()));
  if (!state.loss->classifies)
    throw std::invalid_argument(
      "the loss \"" + std::string{state.loss->name}
      + "\" compares outputs with targets of their shape, but " + name
      + " has labels; use \"softmax_cross_entropy\"");
  const auto& outputs = state.net.output();
  if (outputs.rank() != 1 || outputs[0] < batches.classes())
    throw std::invalid_argument(
      name + " has labels of " + std::to_string(batches.classes())
      + " classes, but the model \"" + state.net.name() + "\" gives "
      + to_string(outputs) + "; its last layer needs a unit for each class");
}

} // namespace troupe
