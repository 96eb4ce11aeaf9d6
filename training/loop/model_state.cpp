#include "troupe/training/loop/model_state.hpp"

#include <stdexcept>

namespace troupe {

model_state::model_state(const models::model_description& what,
                         const update_rule& by, const models::loss& loss,
                         std::uint64_t seed, std::shared_ptr<strategy_state> in)
  : strategy{std::move(in)},
    net{what},
    rule{by},
    loss{&loss},
    seed{seed},
    own{net.parameters(), strategy->copies, strategy->here.count} {
  for (std::uint32_t copy = 0; copy < own.copies(); ++copy) {
    auto& mine = slots.emplace_back();
    for (std::size_t s = 0; s < rule.slots(); ++s)
      mine.push_back(tensor::zeros({static_cast<std::int64_t>(own.size())}));
  }
}

void model_state::share_copy(std::uint32_t from) {
  for (std::uint32_t copy = 0; copy < own.copies(); ++copy) {
    if (copy == from)
      continue;
    own.values(copy).copy_from(own.values(from));
    for (std::size_t s = 0; s < slots[copy].size(); ++s)
      slots[copy][s].copy_from(slots[from][s]);
  }
}

void check_data(const model_state& it, const data::dataset& batches,
                std::string_view what) {
  const std::string name{what};
  if (!batches.size())
    throw std::invalid_argument(name
                                + " has no end; bound the epoch with "
                                  "take(batches)");
  if (*batches.size() == 0)
    throw std::invalid_argument(name
                                + " has no batch; provide at least one "
                                  "example");
  const auto dims = batches.element().dims;
  if (dims.rank() == it.net.input().rank())
    throw std::invalid_argument(name
                                + " yields single examples; group them with "
                                  "batch(count)");
  it.net.check_input(dims.axes(1, dims.rank()));
  if (!it.loss->classifies)
    throw std::invalid_argument(
      "the loss \"" + std::string{it.loss->name}
      + "\" compares outputs with targets of their shape, but " + name
      + " has labels; use \"softmax_cross_entropy\"");
  const auto& outputs = it.net.output();
  if (outputs.rank() != 1 || outputs[0] < batches.classes())
    throw std::invalid_argument(
      name + " has labels of " + std::to_string(batches.classes())
      + " classes, but the model \"" + it.net.name() + "\" gives "
      + to_string(outputs) + "; its last layer needs a unit for each class");
}

} // namespace troupe
