#include "troupe/strategies/parameter_server/change_checks.hpp"

#include <cmath>
#include <stdexcept>

namespace troupe::parameter_server {

void reject(const part_change& change, const std::string& why) {
  throw std::invalid_argument(std::string{to_string(change.what)} + ": " + why);
}

void check_rule(const part_change& change, const tensor_spec& part,
                std::optional<std::size_t> slots) {
  if (part.type != dtype::float32)
    reject(change, "an optimizer cannot update " + to_string(part)
                     + "; it updates float32");
  if (!change.rule)
    reject(change, "needs an update rule");
  const auto rate = change.learning_rate.value_or(0);
  if (!std::isfinite(rate) || rate < 0 || !std::isfinite(change.scale))
    reject(change, "the learning rate " + std::to_string(rate)
                     + " and the scale " + std::to_string(change.scale)
                     + " must be finite, and the rate not negative");
  if (slots && *slots != change.rule->slots())
    reject(change, "the optimizer began with another rule than "
                     + std::string{change.rule->name()});
  if (change.what == part_change::kind::restore_slot
      && (change.rows || change.slot >= change.rule->slots()))
    reject(change, "there is no slot " + std::to_string(change.slot) + " of "
                     + std::string{change.rule->name()}
                     + ", or the value is not that of all elements");
}

} // namespace troupe::parameter_server
