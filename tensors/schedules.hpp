#pragma once

#include "troupe/tensors/hyperparameters.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe {

/// The learning rate does not change.
struct constant_schedule {
  float learning_rate = 1e-3f;
};

/// learning_rate * factor^(step / every), whole division.
struct step_schedule {
  float learning_rate = 1e-1f;
  float factor = 0.1f;
  std::uint64_t every = 1000;
};

/// Rises in a line from learning_rate / warm_up at step 0 to learning_rate at
/// step `warm_up` - 1, then falls along half a cosine from learning_rate at
/// step `warm_up` to `final_rate` at step `steps`, and stays there.
/// @source Loshchilov & Hutter, ICLR 2017, without restarts.
struct cosine_schedule {
  float learning_rate = 1e-1f;
  float final_rate = 0;
  std::uint64_t steps = 1000;
  std::uint64_t warm_up = 0;
};

/// The learning rate by step (global, from 0): a function of the step alone, so
/// that whoever resumes finds it again.
class schedule {
public:
  using any = std::variant<constant_schedule, step_schedule, cosine_schedule>;

  schedule() : schedule{constant_schedule{}} {}

  /// @errors throws std::invalid_argument: a number that cannot be, with a
  ///         sentence that names it and says what would do.
  schedule(const constant_schedule& form) : form_{form} { check(); }
  schedule(const step_schedule& form) : form_{form} { check(); }
  schedule(const cosine_schedule& form) : form_{form} { check(); }

  /// From a description: constant, step or cosine.
  /// @errors likewise; an unknown name lists those there are.
  explicit schedule(std::string_view name,
                    std::span<const named_number> numbers = {});

  std::string_view name() const;
  named_numbers numbers() const;

  /// The bits depend on neither processor nor C library.
  float at(std::uint64_t step) const;

private:
  void check() const;

  any form_;
};

/// constant, step, cosine
const std::vector<std::string>& schedule_names();

} // namespace troupe
