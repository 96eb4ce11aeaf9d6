#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace troupe {

/// Maximum number of `step_metrics::sums`.
inline constexpr std::size_t max_step_sums = 1024;

/// Metrics of one replica for one step. `sum_metrics` adds them over the
/// replicas.
struct step_metrics {
  std::uint64_t examples = 0; ///< Number of examples.
  /// Sums over the examples. All replicas agree on the number and the meaning
  /// of the sums before a run begins. At most `max_step_sums`.
  std::vector<double> sums;

  /// Sets the number of examples to 0, and all sums to 0.
  /// @cost allocates no memory if the number of sums was as large before.
  void reset(std::size_t sum_count) {
    examples = 0;
    sums.assign(sum_count, 0.0);
  }

  auto fields() { return std::tie(examples, sums); }
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
  /// First step whose commit the caller of the run in the chief's process had
  /// not processed when this step was committed. The chief increments it with
  /// each acknowledgement.
  std::uint64_t processed_by_chief = 0;

  auto fields() {
    return std::tie(step, generation, contributors, total, processed_by_chief);
  }
  friend bool operator==(const commit_record&, const commit_record&) = default;
};

/// Sums metrics over replicas in the order of the canonical tree
/// (tree/reduction.hpp).
/// @param metrics metrics by replica id, all with the same number of sums.
/// @param total is set to the sums; its memory is reused.
void sum_metrics(std::span<const step_metrics> metrics, step_metrics& total);

} // namespace troupe
