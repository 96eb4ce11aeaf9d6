#pragma once

#include "troupe/tensors/optim/schedules.hpp"
#include "troupe/training/loop/options/history.hpp"

#include <cstdint>
#include <optional>

// Warnings of a fit about what it has computed, whatever trains the model.

namespace troupe {

/// Warns once if no step of a fit has had a learning rate above 0.
class rate_warning {
public:
  /// False: a step has had a rate above 0, so further rates have no effect.
  bool asks_for_more() const { return !has_rate_; }
  /// Adds the learning rate of a step.
  void add(float rate) { has_rate_ = has_rate_ || rate > 0; }
  /// Adds a step whose rate is not known. It counts as above 0.
  void add_unknown() { has_rate_ = true; }
  /// Warns if the fit has made steps and none has had a rate above 0.
  /// @param steps of this fit.
  /// @param all_steps that the model has made.
  /// @param used None: the rate was that of the update rule.
  void warn(std::uint64_t steps, std::uint64_t all_steps,
            const std::optional<schedule>& used);

private:
  bool has_rate_ = false;
  bool has_warned_ = false;
};

/// Warns if no step of an epoch has made its update.
void warn_if_without_update(const epoch_record& epoch);

} // namespace troupe
