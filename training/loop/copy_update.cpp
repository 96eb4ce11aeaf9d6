#include "troupe/training/loop/copy_update.hpp"

#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/op_threads.hpp"

namespace troupe {

namespace {

float* address_of(tensor x) {
  return reinterpret_cast<float*>(x.mutable_address());
}

std::array<float*, 2> moved_by(std::array<float*, 2> slots, std::size_t n) {
  for (auto& one : slots)
    one = one ? one + n : nullptr;
  return slots;
}

} // namespace

copy_update::copy_update(model_state& model, std::uint32_t copy)
  : gradient_{model.model_parameters.gradients(copy)},
    values_{address_of(model.model_parameters.values(copy))} {
  for (std::size_t s = 0; s < model.rule.slots(); ++s)
    slots_[s] = address_of(model.slots[copy][s]);
}

void copy_update::operator()(const rule_step& update,
                             const element_range& range,
                             const float* sums) const {
  if (gradient_.device().kind != device_kind::cpu)
    return update_on_device(update, range, sums);
  for_elements(range.end - range.begin,
               [&](std::size_t first, std::size_t last) {
                 const auto begin = range.begin + first;
                 update(values_ + begin, sums + first, moved_by(slots_, begin),
                        last - first);
               });
}

void copy_update::update_on_device(const rule_step& update,
                                   const element_range& range,
                                   const float* sums) const {
  const auto on = gradient_.device();
  const auto n = range.end - range.begin;
  auto& backend = backend_of(on);
  auto* const gradient = address_of(gradient_) + range.begin;
  backend.copy(on, reinterpret_cast<std::byte*>(gradient), {},
               reinterpret_cast<const std::byte*>(sums), n * sizeof(float));
  backend.update(on, update.coefficients(), values_ + range.begin, gradient,
                 moved_by(slots_, range.begin), n);
}

} // namespace troupe
