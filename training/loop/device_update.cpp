#include "troupe/training/loop/device_update.hpp"

#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe {

namespace {

float* address_of(tensor x) {
  return reinterpret_cast<float*>(x.mutable_address());
}

} // namespace

device_update::device_update(model_state& model,
                             std::vector<element_range> trained)
  : shared_update{model, std::move(trained)},
    on_{model.model_parameters.values().device()},
    backend_{backend_of(on_)},
    values_{address_of(model.model_parameters.values())} {
  for (std::size_t s = 0; s < model.rule.slots(); ++s)
    slots_[s] = address_of(model.slots[0][s]);
  // The check reads all elements, also those of frozen variables.
  for (auto& one : gradients_)
    one.set_zero();
}

bool device_update::has_finite_sums(const tensor& gradient) const {
  return gradient.size() == 0
         || !backend_.any_exceeds(on_, address_of(gradient), gradient.size(),
                                  max_element());
}

void device_update::reset() {
  is_claimed_ = false;
  const std::lock_guard hold{lock_};
  has_sums_ = false;
}

bool device_update::sums_are_finite() {
  add_gradients();
  const auto* const sums = address_of(gradients_.front());
  return std::ranges::none_of(trained_, [&](const element_range& one) {
    return backend_.any_exceeds(on_, sums + one.begin, one.end - one.begin,
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
  const auto* const sums = address_of(gradients_.front());
  for (const auto& [begin, end] : trained_) {
    std::array<float*, 2> slots{};
    for (std::size_t s = 0; s < slots.size(); ++s)
      slots[s] = slots_[s] ? slots_[s] + begin : nullptr;
    backend_.update(on_, update.coefficients(), values_ + begin, sums + begin,
                    slots, end - begin);
  }
}

} // namespace troupe
