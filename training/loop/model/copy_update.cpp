#include "troupe/training/loop/model/copy_update.hpp"

#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/op_threads.hpp"

namespace troupe {

copy_update::copy_update(model_state& model, std::uint32_t copy)
  : target_{model.model_parameters.values(copy), model.slots[copy]},
    gradient_{model.model_parameters.gradients(copy)} {}

void copy_update::operator()(const rule_step& update,
                             const element_range& range,
                             const float* sums) const {
  if (target_.on().kind != device_kind::cpu)
    return update_on_device(update, range, sums);
  for_elements(
    range.end - range.begin, [&](std::size_t first, std::size_t last) {
      target_.update(update, range.begin + first, sums + first, last - first);
    });
}

void copy_update::update_on_device(const rule_step& update,
                                   const element_range& range,
                                   const float* sums) const {
  const auto n = range.end - range.begin;
  auto* const gradient = float_address(gradient_) + range.begin;
  backend_of(target_.on())
    .copy(target_.on(), reinterpret_cast<std::byte*>(gradient), {},
          reinterpret_cast<const std::byte*>(sums), n * sizeof(float));
  by_gradient(update, range);
}

void copy_update::by_gradient(const rule_step& update,
                              const element_range& range) const {
  target_.update(update, range.begin, float_address(gradient_) + range.begin,
                 range.end - range.begin);
}

} // namespace troupe
