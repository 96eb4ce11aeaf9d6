#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <tuple>
#include <vector>

namespace troupe::parameter_server {

/// The steps and slots of an optimizer for a part.
struct optimizer_image {
  std::uint32_t optimizer = 0;
  std::uint64_t steps = 0;
  std::uint32_t slots = 0; ///< Number of its slots.
  auto fields() { return std::tie(optimizer, steps, slots); }
};

/// The replicas whose gradients wait for a synchronous step, ascending.
struct waiting_step_image {
  std::uint64_t step = 0;
  std::vector<std::uint32_t> replicas;
  auto fields() { return std::tie(step, replicas); }
};

/// What a `stored_part` holds, for a snapshot. Its tensors travel beside it:
/// the value, then the slots of each optimizer, then the gradients that wait.
struct part_image {
  std::uint64_t version = 0;
  std::uint64_t next_step = 0; ///< All synchronous steps before it are applied.
  std::vector<optimizer_image> optimizers; ///< By number, ascending.
  std::vector<waiting_step_image> waiting; ///< By step, ascending.
  auto fields() { return std::tie(version, next_step, optimizers, waiting); }
};

} // namespace troupe::parameter_server
