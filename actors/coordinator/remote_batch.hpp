#pragma once

#include "troupe/tensors/tensor.hpp"

#include <chrono>
#include <cstddef>

namespace troupe {

/// Maximum size of the inputs, or of the results, in a message between a
/// closure link and its node. A closure that has more is alone in its message.
inline constexpr std::size_t max_batch_bytes = std::size_t{256} * 1024;

/// A node answers a request after twice this time if no execution has ended.
inline constexpr std::chrono::milliseconds answer_interval{500};

/// Returns what tensors contribute to the size of a message.
inline std::size_t batch_bytes(const tensors& all) {
  constexpr std::size_t of_spec = 64; // bounds the number of tensors too
  std::size_t sum = 0;
  for (const auto& one : all)
    sum += one.bytes() + of_spec;
  return sum;
}

} // namespace troupe
