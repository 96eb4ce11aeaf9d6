#include "troupe/training/loop/model/update_target.hpp"

#include "troupe/tensors/device_backend.hpp"

namespace troupe {

void update_target::update(const rule_step& rule, std::size_t at,
                           const float* gradient, std::size_t n,
                           const std::int32_t* is_skipped) const {
  auto slots = slots_;
  for (auto& one : slots)
    one = one ? one + at : nullptr;
  if (on_.kind == device_kind::cpu)
    rule(values_ + at, gradient, slots, n);
  else if (n > 0)
    backend_of(on_).update(on_, rule.coefficients(), values_ + at, gradient,
                           slots, n, is_skipped);
}

void update_target::update_rows(const rule_step& rule,
                                const sparse_rows& gradient) const {
  if (gradient.rows().size() > 0)
    backend_of(on_).update_rows(on_, rule.coefficients(), values_, gradient,
                                slots_);
}

} // namespace troupe
