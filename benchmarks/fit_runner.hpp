#pragma once

#include "troupe/benchmarks/timing.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <chrono>
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
  int threads = 1; ///< Number of threads for the ops of each replica.
  models::precision precision = models::precision::float32;
  /// Device of all replicas of this process. Another one than a CPU:
  /// "one_device".
  std::string device = "cpu:0";
  /// True: the batches are on the CPU, so that a step on another device needs
  /// copies. False: their inputs are on the device before the measurement.
  bool host_batches = false;
  bool graph = false; ///< The steps are captured (`fit_options::graph`).
  /// Number of worker processes with one replica each. Zero: only this process
  /// trains.
  std::uint32_t workers = 0;
  /// Interval of audits of these workers.
  std::uint64_t audit_steps = fit_options{}.audit_steps;
  std::string transport = "auto"; ///< Transport between workers.
  /// Interval of these workers.
  std::chrono::milliseconds heartbeat_interval{100};
};

/// Trains a built-in model under a strategy by `model.fit`, on prepared
/// batches. A measurement thus includes all of training except reading files.
class fit_runner {
public:
  /// Creates the strategy and the model.
  /// @param batch Number of examples per replica and step.
  /// @errors throws std::invalid_argument for an unknown model or strategy, and
  ///         for a number of replicas that the strategy cannot have.
  fit_runner(const std::string& model, std::uint64_t batch,
             const run_config& config);
  /// Creates the model under an existing strategy.
  fit_runner(const std::string& model, std::uint64_t batch,
             const strategy& chosen);
  ~fit_runner();

  /// Times the steps of one `model.fit` after a warm-up. A window begins and
  /// ends with the commit of a step.
  /// @returns seconds per step of each window.
  std::vector<double> time(const timing_windows& windows);

  /// Times `windows` windows of `steps` steps each, after `warm_up` steps that
  /// are not timed.
  /// @returns seconds per step of each window.
  std::vector<double> time(int windows, std::uint64_t steps,
                           std::uint64_t warm_up);

  /// Trains until the leader, which runs `time(windows)`, ends the training.
  /// Every process of the strategy but the leader has to call this.
  void run_follower();
  /// Trains until `continue_after` returns false. It is called after each step,
  /// with the number of steps that this process has made.
  void fit(const std::function<bool(std::uint64_t step)>& continue_after);

  /// Steps between two audits of the parameters. Zero: none.
  void set_audit_steps(std::uint64_t steps) { audit_steps_ = steps; }

  double last_loss() const { return last_loss_; }

private:
  void begin(const std::string& model, std::uint64_t batch,
             const strategy& chosen, const run_config& config = {});

  std::unique_ptr<runtime> runtime_; ///< Null: the strategy needs no runtime.
  std::unique_ptr<troupe::model> model_;
  std::optional<data::dataset> batches_;
  std::uint64_t audit_steps_ = fit_options{}.audit_steps;
  graph_capture graph_ = graph_capture::off;
  double last_loss_ = 0;
};

} // namespace troupe::benchmarks
