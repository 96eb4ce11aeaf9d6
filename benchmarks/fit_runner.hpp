#pragma once

#include "troupe/benchmarks/timing.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {
class runtime;
}

namespace troupe::benchmarks {

struct run_config {
  std::string strategy = "default"; ///< Or "one_device", "mirrored".
  std::uint32_t replicas = 1;
  int threads = 1; ///< Threads of each replica's ops.
  /// Processes of one replica each. Zero: this process alone.
  std::uint32_t workers = 0;
  std::string transport = "auto"; ///< Transport between workers.
};

/// A built-in model in a strategy, trained by `model.fit` on prepared batches.
/// This is everything in training except reading files.
class fit_runner {
public:
  /// Creates the strategy and the model.
  /// @param batch examples per replica and step.
  /// @errors throws std::invalid_argument for an unknown model or strategy, and
  ///         for a number of replicas that the strategy cannot have.
  fit_runner(const std::string& model, std::uint64_t batch,
             const run_config& config);
  /// Creates the model in an existing strategy.
  fit_runner(const std::string& model, std::uint64_t batch,
             const strategy& chosen);
  ~fit_runner();

  /// Times a fit after a warm-up. Commits of steps delimit the windows.
  /// @returns seconds per step of each window.
  std::vector<double> time(const timing_windows& windows);

  /// Times a fit after `warm_up` steps, in windows of `steps` steps.
  /// @returns seconds per step of each window.
  std::vector<double> time(int windows, std::uint64_t steps,
                           std::uint64_t warm_up);

  /// Trains while the leader runs `time(windows)`, which ends the training.
  /// Every other process of the strategy has to call this.
  void run_follower();

  double last_loss() const { return last_loss_; }

private:
  void begin(const std::string& model, std::uint64_t batch,
             const strategy& chosen);
  void fit(const std::function<bool(std::uint64_t step)>& continue_after);

  std::unique_ptr<runtime> runtime_; ///< Null: the strategy needs none.
  std::unique_ptr<troupe::model> model_;
  std::optional<data::dataset> batches_;
  double last_loss_ = 0;
};

} // namespace troupe::benchmarks
