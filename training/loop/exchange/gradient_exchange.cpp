#include "troupe/training/loop/exchange/gradient_exchange.hpp"

#include "troupe/training/loop/exchange/bucket_exchange.hpp"
#include "troupe/training/loop/exchange/device_exchange.hpp"
#include "troupe/training/loop/exchange/shared_exchange.hpp"

#include <utility>

namespace troupe {

std::unique_ptr<gradient_exchange>
gradient_exchange::make(model_state& model, const step_rules& rules,
                        const trained_parameters& trained, std::size_t sums,
                        std::shared_ptr<parameter_audit> audit) {
  if (model.strategy->is_one_process && model.model_parameters.copies() == 1) {
    if (model.strategy->tensor_device().kind != device_kind::cpu)
      return std::make_unique<device_exchange>(model, rules, trained, sums);
    return std::make_unique<shared_exchange>(model, rules, trained, sums);
  }
  return std::make_unique<bucket_exchange>(model, rules, trained, sums,
                                           std::move(audit));
}

} // namespace troupe
