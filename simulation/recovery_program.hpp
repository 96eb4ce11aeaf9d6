#pragma once

#include "troupe/training/model.hpp"
#include "troupe/training/strategies/strategy.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

// The programs of simulated jobs that go on (recovery_check.hpp). Each of them
// trains the same network for the same number of steps.

namespace troupe::simulation {

enum class job_program : std::uint8_t {
  fits,          ///< Two fits with an evaluation in between.
  plain_loop,    ///< `run`, `reduce` and `gather`. No process can join.
  joinable_loop, ///< The same in a `strategy.loop`.
};

/// Number of steps of each program.
inline constexpr std::uint64_t recovery_steps = 20;
/// Number of replicas of each program.
inline constexpr std::uint32_t recovery_replicas = 8;

/// Returns how often a program calls `program_hooks::in_user_code` if no fault
/// occurs.
std::uint64_t user_code_pieces(job_program program);

/// What a program tells of a step.
struct told_step {
  std::uint64_t step = 0, examples = 0;
  double loss = 0;
  friend bool operator==(const told_step&, const told_step&) = default;
};

/// The program calls these functions.
struct program_hooks {
  /// Called where a program has code of its own: at its begin, in callbacks,
  /// between two calls of the strategy, and at its end. Empty: not called.
  std::function<void()> in_user_code{};
  /// Called for each step. Empty: not called.
  /// @param repeated as `step_record::repeated`.
  std::function<void(const told_step&, bool repeated)> on_step{};
  /// Saves the model, after each epoch of a fit and at the end of a loop. All
  /// processes call it. Empty: not called.
  std::function<void(const model&)> save{};
  /// Called if a call of the program throws `job_error`, before that error
  /// leaves the program. Empty: not called.
  std::function<void(const model&)> on_failure{};
  std::size_t prefetch = 0; ///< Value of `fit_options::prefetch`.
  /// For `fit_options::leave`. Null: the process does not leave.
  const std::atomic<bool>* leave = nullptr;
};

/// The result of a program.
struct program_result {
  std::string text; ///< Histories and evaluations.
  tensors weights;  ///< Weights of each local replica.
  fit_end end = fit_end::done;
};

/// Runs a program in one process of its job.
/// @param out receives the results as the program gets them.
void run_program(job_program program, const strategy& on,
                 const program_hooks& hooks, program_result& out);

} // namespace troupe::simulation
