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

struct placement {
  std::string strategy = "default"; ///< Or "one_device", "mirrored".
  std::uint32_t replicas = 1;
  int threads = 1; ///< Threads of each replica's ops.
  std::uint32_t workers =
    0; ///< Processes of one replica each. Zero: this process alone.
  std::string transport = "auto"; ///< Transport between workers.
};

/// A built-in model in a strategy, trained by `model.fit` on prepared batches.
/// This is everything in training except reading files.
class fitted {
public:
  /// Creates the strategy and the model.
  /// @param batch examples per replica and step.
  /// @errors throws std::invalid_argument for an unknown model or strategy, and
  ///         for a number of replicas that the strategy cannot have.
  fitted(const std::string& model, std::uint64_t batch, const placement& where);
  /// Creates the model in an existing strategy.
  fitted(const std::string& model, std::uint64_t batch, const strategy& in);
  ~fitted();

  /// Times a fit after a warm-up. Commits of steps delimit the windows.
  /// @returns seconds per step of each window.
  std::vector<double> time(const windows& how);

  /// Times a fit after `warm_up` steps, in windows of `steps` steps.
  /// @returns seconds per step of each window.
  std::vector<double> time(int windows, std::uint64_t steps,
                           std::uint64_t warm_up);

  /// Trains while the leader runs `time(windows)`, which ends the training.
  /// Every other process of the strategy has to call this.
  void follow();

  double last_loss() const { return last_loss_; }

private:
  void begin(const std::string& model, std::uint64_t batch, const strategy& in);
  void fit(const std::function<bool(std::uint64_t step)>& go_on);

  std::unique_ptr<runtime> runtime_; ///< Null: the strategy needs none.
  std::unique_ptr<troupe::model> model_;
  std::optional<data::dataset> batches_;
  double last_loss_ = 0;
};

} // namespace troupe::benchmarks
