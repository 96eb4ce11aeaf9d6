#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace troupe {

/// Metrics of one replica for one step. `sum_metrics` adds them over the
/// replicas.
struct step_metrics {
  std::uint64_t examples = 0; ///< Number of examples.
  double loss_sum = 0;        ///< Sum of the examples' losses.
  double correct = 0;         ///< Number of correctly predicted examples.

  auto fields() { return std::tie(examples, loss_sum, correct); }
  friend bool operator==(const step_metrics&, const step_metrics&) = default;
};

/// A committed step.
struct commit_record {
  /// Step number, from 0. The chief commits steps in ascending order.
  std::uint64_t step = 0;
  /// Generation in which the step ran. The chief increments it at each
  /// reconfiguration of the replicas.
  std::uint64_t generation = 0;
  std::vector<std::uint32_t> contributors; ///< Replica ids, ascending.
  step_metrics total; ///< Metrics summed over the contributors.

  auto fields() { return std::tie(step, generation, contributors, total); }
  friend bool operator==(const commit_record&, const commit_record&) = default;
};

/// Sums metrics over replicas in the order of the canonical tree
/// (tree/reduction.hpp).
/// @param metrics metrics by replica id.
step_metrics sum_metrics(std::span<const step_metrics> metrics);

} // namespace troupe
