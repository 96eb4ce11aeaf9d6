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
  int threads = 1;           ///< Of each replica's ops.
  std::uint32_t workers = 0; ///< Processes of one replica each; 0: this one.
  std::string transport = "auto"; ///< Between them.
};

/// A ready model in a strategy, trained by `model.fit` on ready-made batches:
/// all that training is made of but the reading of files.
class fitted {
public:
  /// @param batch examples of each replica.
  /// @errors throws std::invalid_argument for an unknown model or strategy, and
  ///         for a strategy that cannot have so many replicas.
  fitted(const std::string& model, std::uint64_t batch, const placement& where);
  /// In a strategy that is there already.
  fitted(const std::string& model, std::uint64_t batch, const strategy& in);
  ~fitted();

  /// One fit, cut into windows by its commits, after a warm-up.
  /// @returns seconds per step of each window.
  std::vector<double> time(const windows& how);

  /// Likewise, of windows of that many steps.
  std::vector<double> time(int windows, std::uint64_t steps,
                           std::uint64_t warm_up);

  /// What every other process of the strategy does while the leader calls
  /// `time(how)`, which ends it.
  void follow();

  double last_loss() const { return last_loss_; }

private:
  void begin(const std::string& model, std::uint64_t batch, const strategy& in);
  void fit(const std::function<bool(std::uint64_t step)>& go_on);

  std::unique_ptr<runtime> runtime_; ///< Where the strategy needs one.
  std::unique_ptr<troupe::model> model_;
  std::optional<data::dataset> batches_;
  double last_loss_ = 0;
};

} // namespace troupe::benchmarks
