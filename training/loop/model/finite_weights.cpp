#include "troupe/training/loop/model/finite_weights.hpp"

#include "troupe/training/loop/model/model_state.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace troupe {

void check_finite_weights(std::string_view variable,
                          std::span<const float> elements,
                          std::uint64_t steps) {
  if (std::ranges::all_of(elements, [](float x) { return std::isfinite(x); }))
    return;
  throw std::runtime_error("the weights of \"" + std::string{variable}
                           + "\" are not finite after " + std::to_string(steps)
                           + (steps == 1 ? " step" : " steps")
                           + " (try a smaller learning rate)");
}

void check_finite_weights(const model_state& state) {
  const auto& all = state.model_parameters;
  const auto values = all.values(0).to({});
  const auto elements = values.data<float>();
  for (std::size_t i = 0; i < all.variables().size(); ++i) {
    const auto& one = all.variables()[i];
    check_finite_weights(one.name(),
                         elements.subspan(all.offset(i), one.dims().elements()),
                         state.loop_optimizer.steps());
  }
}

} // namespace troupe
