#include "troupe/training/loop/fit/fit_warnings.hpp"

#include "troupe/actors/core/log.hpp"

#include <string>
#include <utility>

namespace troupe {

void rate_warning::warn(std::uint64_t steps, std::uint64_t all_steps,
                        const std::optional<schedule>& used) {
  if (steps == 0 || has_rate_ || std::exchange(has_warned_, true))
    return;
  log(log_level::warning,
      "the learning rate was 0 in all " + std::to_string(steps)
        + " steps of this fit up to step " + std::to_string(all_steps - 1)
        + ", so they changed no weight"
        + (used && used->name() != "constant"
             ? "; the schedule \"" + std::string{used->name()}
                 + "\" counts the steps of all fits of the model, from 0"
             : ""));
}

void warn_if_without_update(const epoch_record& epoch) {
  if (epoch.examples > 0)
    return;
  log(log_level::warning,
      "no step of epoch " + std::to_string(epoch.epoch)
        + " has made its update, because the loss or a gradient of each was "
          "not finite");
}

} // namespace troupe
