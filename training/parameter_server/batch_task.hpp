#pragma once

#include "troupe/strategies/step_commit/step_report.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// What a closure of a `server_model` computes: one batch, or the part of one
/// replica.
struct batch_task {
  enum class kind : std::uint8_t {
    train,      ///< An update of the parameters.
    contribute, ///< A contribution to a synchronous step.
    score,      ///< Metrics of a batch of the validation data.
    /// A contribution to a synchronous step of all parameters but the tables.
    /// The gradients of the tables are updates of their own.
    contribute_dense,
  };
  kind what = kind::train;
  std::uint64_t epoch = 0;   ///< Of the dataset.
  std::uint64_t index = 0;   ///< Of the batch in the epoch.
  std::uint64_t batches = 0; ///< In an epoch of the dataset.
  std::uint64_t step = 0;    ///< Over all fits. Unused by `score`.
  std::uint32_t replica = 0; ///< Of `contribute` and `contribute_dense`.
  std::uint32_t replicas = 1;
  /// `train` uses it for all parameters, `contribute_dense` for the tables. The
  /// others do not use it.
  float learning_rate = 0;
  /// The closure throws std::runtime_error if the loss or gradient is not
  /// finite. False: it says so in its metrics.
  bool throws_on_nan = false;
  /// `server_batches::description` of the coordinator's program, one "name:
  /// value" a line. A worker on a node has an equal one. Empty: it is not
  /// compared, as the worker is a thread of that program.
  std::string description{};
};

/// Returns a task as the inputs of a registered closure: [8] int64, [1] float32
/// and the description, [n] uint8.
tensors encode(const batch_task& x);

/// @errors throws std::invalid_argument for other tensors than `encode`
///         returns.
batch_task decode_batch_task(const tensors& from);

/// Returns metrics as the result of a registered closure: [1 + sums] float64.
tensors encode(const step_metrics& x);

/// @param sums number of sums of the metrics.
/// @errors throws std::invalid_argument for other tensors.
step_metrics decode_step_metrics(const tensors& from, std::size_t sums);

} // namespace troupe
