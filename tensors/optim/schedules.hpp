#pragma once

#include "troupe/tensors/base/hyperparameters.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe {

/// A constant learning rate.
struct constant_schedule {
  float learning_rate = 1e-3f;
};

/// learning_rate * factor^floor(step / every). With a factor above 1 the rate
/// grows, until it is no longer a float.
struct step_schedule {
  float learning_rate = 1e-1f;
  float factor = 0.1f;
  std::uint64_t every = 1000;
};

/// The rate increases linearly from learning_rate / warm_up at step 0 to
/// learning_rate at step `warm_up` - 1. From step `warm_up` on, it decreases by
/// half a cosine from learning_rate to `final_rate` at step `steps`. Then it
/// stays constant.
/// @source Loshchilov & Hutter, ICLR 2017, without restarts.
struct cosine_schedule {
  float learning_rate = 1e-1f;
  float final_rate = 0;
  std::uint64_t steps = 1000;
  std::uint64_t warm_up = 0;
};

/// A function of the step. It must return the same rate for the same step, and
/// may be called on any thread.
struct function_schedule {
  std::function<float(std::uint64_t step)> rate;
};

/// The learning rate as a function of the global step, which counts from 0. A
/// schedule has no state, so a resumed job needs only the step to continue.
class schedule {
public:
  using variant_type = std::variant<constant_schedule, step_schedule,
                                    cosine_schedule, function_schedule>;

  schedule() : schedule{constant_schedule{}} {}

  /// @errors throws std::invalid_argument for an invalid hyperparameter, with
  ///         its name and valid range.
  schedule(const constant_schedule& form) : form_{form} { check(); }
  schedule(const step_schedule& form) : form_{form} { check(); }
  schedule(const cosine_schedule& form) : form_{form} { check(); }
  /// @errors throws std::invalid_argument if the function is empty.
  schedule(const function_schedule& form) : form_{form} { check(); }

  /// Makes a schedule by name: constant, step or cosine.
  /// @errors throws std::invalid_argument for an unknown name, and lists the
  ///         known names; also for an unknown or invalid hyperparameter.
  explicit schedule(std::string_view name,
                    std::span<const hyperparameter> numbers = {});

  /// Name of the schedule; "function" for a function.
  std::string_view name() const;
  hyperparameters numbers() const;

  /// Returns the learning rate of a step, which is finite and at least 0.
  /// Except for a function, the bits depend on neither processor nor C library.
  /// @errors throws std::invalid_argument if the rate is too large for a float,
  ///         or if a function returns a rate that is negative or not finite.
  ///         Throws the exceptions of the function.
  float at(std::uint64_t step) const;

private:
  void check() const;

  variant_type form_;
};

/// Names of the schedules that can be made by name: constant, step, cosine.
const std::vector<std::string>& schedule_names();

} // namespace troupe
