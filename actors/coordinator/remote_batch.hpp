#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstddef>
#include <cstdint>

// Limits of the messages between a closure link and the worker on its node.

namespace troupe {

/// Maximum number of executions with a place that a worker on a node has at
/// once, and the maximum of all.
inline constexpr std::uint32_t max_in_flight_on_node = 1024,
                               max_executions_on_node = 4 * 1024;

/// Maximum size of the inputs, or of the results, of a message. A closure that
/// has more is alone in its message.
inline constexpr std::size_t max_batch_bytes = std::size_t{256} * 1024;

/// Maximum number of reports that wait for a poll of the coordinator.
inline constexpr std::size_t max_waiting_reports = 4096;

/// Maximum size of the text of an error.
inline constexpr std::size_t max_failure_bytes = 4096;

/// Returns what tensors contribute to the size of a message.
inline std::size_t batch_bytes(const tensors& all) {
  constexpr std::size_t of_spec = 64; // bounds the number of tensors too
  std::size_t sum = 0;
  for (const auto& one : all)
    sum += one.bytes() + of_spec;
  return sum;
}

} // namespace troupe
