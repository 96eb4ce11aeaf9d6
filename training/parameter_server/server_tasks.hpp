#pragma once

#include "troupe/strategies/step_commit/step_report.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// What the closures of a `server_model` compute, and what they return. All of
// it travels to workers on nodes.

namespace troupe {

/// Names of the registered closures that execute the tasks.
inline constexpr auto score_closure = "score", replica_closure = "replica";

/// Computes the loss and the metrics of one batch of the validation data.
struct score_task {
  std::uint64_t index = 0;   ///< Of the batch.
  std::uint64_t batches = 0; ///< In an epoch of the dataset.
  /// `server_batches::description_of_evaluation` of the coordinator's program,
  /// one "name: value" a line. A worker on a node has an equal one. Empty: it
  /// is not compared, as the worker is a thread of that program.
  std::string description{};
};

/// Makes the steps [first, last) of one replica of a training.
struct train_task {
  std::uint64_t training = 0; ///< Number of the training.
  std::uint32_t replica = 0;
  std::uint32_t replicas = 1;
  std::uint64_t first = 0, last = 0;
  /// The steps are synchronous. Then the replicas divide batch c of the
  /// training in step c. False: batch c R + r is step c of replica r.
  bool is_synchronous = false;
  /// The tables get their updates from the replica, not by synchronous steps.
  bool has_table_consistency = false;
  std::uint64_t epoch = 0;   ///< Of the dataset.
  std::uint64_t index = 0;   ///< Of batch 0 of the training in the epoch.
  std::uint64_t batches = 0; ///< In an epoch of the dataset.
  /// Number of the batches on which the model was trained before batch 0.
  std::uint64_t model_step = 0;
  /// The closure throws std::runtime_error if the loss or gradient is not
  /// finite. False: it says so in its metrics.
  bool throws_on_nan = false;
  /// Of the steps. Empty: the chief chooses them, because all parameters are
  /// updated by synchronous steps.
  std::vector<float> learning_rates{};
  /// `server_batches::description_of_fit` of the coordinator's program. Empty:
  /// it is not compared, as the worker is a thread of that program.
  std::string description{};

  /// Returns the number in the training of the batch of a step.
  std::uint64_t batch_of(std::uint64_t step) const {
    return is_synchronous ? step : step * replicas + replica;
  }
};

/// What a replica reports when it has contributed to a synchronous step.
struct replica_report {
  std::uint64_t step = 0; ///< Of the training.
  std::int64_t rows = 0;  ///< Of the whole batch.
  step_metrics metrics{}; ///< Of the replica.
};

// The inputs, reports and results of closures. The functions that decode them
// throw std::invalid_argument for other tensors than `encode` returns.

tensors encode(const score_task& x);
score_task decode_score_task(const tensors& from);

tensors encode(const train_task& x);
train_task decode_train_task(const tensors& from);

tensors encode(const replica_report& x);
/// @param sums number of sums of the metrics.
replica_report decode_replica_report(const tensors& from, std::size_t sums);

/// Returns metrics as the result of a closure: [n, 1 + sums] float64.
/// @param all each with as many sums.
tensors encode(const std::vector<step_metrics>& all, std::size_t sums);
/// @param count number of metrics.
std::vector<step_metrics> decode_metrics(const tensors& from, std::size_t count,
                                         std::size_t sums);

} // namespace troupe
