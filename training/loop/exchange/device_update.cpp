#include "troupe/training/loop/exchange/device_update.hpp"

#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

constexpr float greatest_finite = std::numeric_limits<float>::max();

} // namespace

device_update::device_update(model_state& model,
                             std::vector<element_range> trained)
  : trained_{std::move(trained)},
    target_{model.model_parameters.values(), model.slots[0]},
    backend_{backend_of(target_.on())},
    is_skipped_{
      tensor::zeros({1}, dtype::int32, model.strategy->tensor_device())} {
  if (model.model_parameters.copies() != 1)
    throw std::logic_error("an update of one of "
                           + std::to_string(model.model_parameters.copies())
                           + " copies of the parameters on a device");
  for (std::uint32_t r = 0; r < model.model_parameters.replicas(); ++r) {
    gradients_.push_back(model.model_parameters.gradients(r));
    // The check reads all elements, also those between two parameters.
    gradients_.back().set_zero();
  }
}

std::int32_t* device_update::flag() const {
  return reinterpret_cast<std::int32_t*>(is_skipped_.address());
}

void device_update::begin() {
  is_skipped_.set_zero();
}

void device_update::check(const tensor& losses) {
  if (losses.device().kind != device_kind::cpu)
    backend_.find_exceeding(target_.on(),
                            reinterpret_cast<const float*>(losses.address()),
                            losses.size(), greatest_finite, flag());
  else if (kernels().any_exceeds(losses.detach().data<float>().data(),
                                 losses.size(), greatest_finite))
    backend_.fill(target_.on(), is_skipped_.address(), dtype::int32, 1, 1);
}

void device_update::add_gradients() {
  add_range(0, gradients_.size());
  const auto* const sums = float_address(gradients_.front());
  for (const auto& [begin, end] : trained_)
    backend_.find_exceeding(target_.on(), sums + begin, end - begin,
                            greatest_finite, flag());
}

void device_update::add_range(std::size_t first, std::size_t last) {
  if (last - first < 2)
    return;
  const auto middle = first + tree::split(last - first);
  add_range(first, middle);
  add_range(middle, last);
  add_in_place(gradients_[first], gradients_[middle]);
}

void device_update::apply(const rule_step& update) {
  const auto* const sums = float_address(gradients_.front());
  for (const auto& [begin, end] : trained_)
    target_.update(update, begin, sums + begin, end - begin, flag());
}

} // namespace troupe
