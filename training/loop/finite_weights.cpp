#include "troupe/training/loop/finite_weights.hpp"

#include "troupe/training/loop/model_state.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace troupe {

void check_finite_weights(const model_state& state) {
  const auto& all = state.model_parameters;
  const auto values = all.values(0).to({});
  const auto elements = values.data<float>();
  const auto is_not_finite = [](float x) { return !std::isfinite(x); };
  for (std::size_t i = 0; i < all.variables().size(); ++i) {
    const auto& one = all.variables()[i];
    const auto own = elements.subspan(all.offset(i), one.dims().elements());
    if (std::ranges::none_of(own, is_not_finite))
      continue;
    const auto steps = state.loop_optimizer.steps();
    throw std::runtime_error(
      "the weights of \"" + one.name() + "\" are not finite after "
      + std::to_string(steps) + (steps == 1 ? " step" : " steps")
      + " (try a smaller learning rate)");
  }
}

} // namespace troupe
