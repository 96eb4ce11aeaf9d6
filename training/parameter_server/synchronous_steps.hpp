#pragma once

#include "troupe/strategies/parameter_server/messages.hpp"
#include "troupe/strategies/step_commit/step_report.hpp"
#include "troupe/training/parameter_server/server_tasks.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe {

/// What the chief of a training knows of its synchronous steps: what the
/// replicas have reported, and which contributions count. Any thread may call
/// all functions.
class synchronous_steps {
public:
  struct options {
    std::uint32_t replicas = 1;
    /// The replicas update the tables, also those whose contributions do not
    /// count.
    bool has_table_consistency = false;
    std::vector<float> learning_rates; ///< By step of the training.
    /// Called for a step that is not finite, before it is decided. An exception
    /// ends the training.
    std::function<void(std::uint64_t)> on_not_finite;
  };

  /// A contribution that does not count.
  struct dropped {
    std::uint64_t step = 0;
    std::uint32_t replica = 0;
    std::uint64_t examples = 0;
    /// Of the replica. None: its report has not arrived, or has no effect.
    std::optional<step_metrics> metrics{};
  };
  /// What has happened since the last call of `wait`.
  struct news {
    /// Sums over the replicas whose contributions count, of the next steps that
    /// all servers have.
    std::vector<step_metrics> decided;
    std::vector<synchronous_steps::dropped> dropped;
  };

  explicit synchronous_steps(options x) : options_{std::move(x)} {}

  /// A replica has contributed, and says so.
  void on_report(std::uint32_t replica, replica_report report);
  /// Returns how the servers apply the sum of contributions to the next step.
  /// @errors throws what `options::on_not_finite` throws, and
  /// std::runtime_error
  ///         after `close`.
  parameter_server::update_factors
  decide(std::uint64_t step, const std::vector<std::uint32_t>& contributors);
  /// All servers have the decisions on so many steps.
  void on_decided(std::uint64_t steps);
  /// The training cannot go on. The first error counts, and none after `decide`
  /// has thrown because of `close`.
  void fail(std::exception_ptr why);

  /// No further step is decided.
  void close();
  /// True if all servers have all steps that are decided, and the reports that
  /// are waited for have arrived.
  bool is_complete() const;
  /// No further report is waited for: lists the contributions without one.
  void list_missing();

  /// Waits for news, at most for this time.
  /// @errors rethrows the error of `fail`, when all news were returned.
  news wait(std::chrono::milliseconds timeout);

private:
  struct step {
    std::int64_t rows = 0; ///< Of the batch.
    /// Metrics by replica. None: the report was lost with its worker.
    std::map<std::uint32_t, std::optional<step_metrics>> reports;
    std::optional<std::vector<std::uint32_t>> contributors;
    step_metrics total; ///< Of the contributors.
  };

  void add_dropped(std::uint64_t number, const step& of, std::uint32_t replica);
  void drop_lost(std::uint32_t replica, std::uint64_t below);
  bool is_over(std::uint64_t number, const step& of) const;
  void drop_others(std::uint64_t number, step& of);
  bool has_news() const {
    return error_ || counted_ < decided_ || !dropped_.empty();
  }

  const options options_;
  mutable std::mutex lock_; // guards all below
  std::condition_variable changed_;
  /// Steps that are not counted, or lack reports that are waited for.
  std::map<std::uint64_t, step> steps_;
  std::uint64_t made_ = 0;    ///< Steps that `decide` has decided.
  std::uint64_t decided_ = 0; ///< Steps that all servers have.
  std::uint64_t counted_ = 0; ///< Steps that `wait` has returned.
  std::vector<dropped> dropped_;
  bool is_closed_ = false;
  bool has_refused_ = false; ///< `decide` has thrown because of `close`.
  std::exception_ptr error_;
};

} // namespace troupe
