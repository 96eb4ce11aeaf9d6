#include "troupe/training/loop/device_update.hpp"

#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe {

device_update::device_update(model_state& model,
                             std::vector<element_range> trained)
  : shared_update{model, std::move(trained)},
    target_{model.model_parameters.values(), model.slots[0]},
    backend_{backend_of(target_.on())} {
  // The check reads all elements, also those of frozen variables.
  for (auto& one : gradients_)
    one.set_zero();
}

bool device_update::has_finite_sums(const tensor& gradient) const {
  return gradient.size() == 0
         || !backend_.any_exceeds(target_.on(), float_address(gradient),
                                  gradient.size(), max_element());
}

void device_update::reset() {
  is_claimed_ = false;
  const std::lock_guard hold{lock_};
  has_sums_ = false;
}

bool device_update::sums_are_finite() {
  add_gradients();
  const auto* const sums = float_address(gradients_.front());
  return std::ranges::none_of(trained_, [&](const element_range& one) {
    return backend_.any_exceeds(target_.on(), sums + one.begin,
                                one.end - one.begin,
                                std::numeric_limits<float>::max());
  });
}

void device_update::add_gradients() {
  const std::lock_guard hold{lock_};
  if (!std::exchange(has_sums_, true))
    add_range(0, gradients_.size());
}

/// Adds the gradients of the replicas [first, last) into that of `first`, in
/// the order of the canonical tree.
void device_update::add_range(std::size_t first, std::size_t last) {
  if (last - first < 2)
    return;
  const auto middle = first + tree::split(last - first);
  add_range(first, middle);
  add_range(middle, last);
  add_in_place(gradients_[first], gradients_[middle]);
}

void device_update::apply(const rule_step& update) {
  if (is_claimed_.exchange(true))
    return;
  add_gradients();
  const auto* const sums = float_address(gradients_.front());
  for (const auto& [begin, end] : trained_)
    target_.update(update, begin, sums + begin, end - begin);
}

} // namespace troupe
