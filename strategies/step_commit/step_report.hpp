#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace troupe {

/// Metrics of one replica for one step; added over replicas in tree order.
struct step_metrics {
  std::uint64_t examples = 0; ///< Number of examples.
  double loss_sum = 0;        ///< Sum over the examples, not a mean.
  double correct = 0;         ///< Number of examples whose label was predicted.

  auto fields() { return std::tie(examples, loss_sum, correct); }
  friend bool operator==(const step_metrics&, const step_metrics&) = default;
};

/// A committed step.
struct commit_record {
  /// Step number, from 0; the chief commits in ascending order.
  std::uint64_t step = 0;
  /// Generation in which the step ran; the chief increments it at each
  /// reconfiguration.
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
