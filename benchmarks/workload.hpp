#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/tensors/update_rules.hpp"
#include "troupe/tensors/variable.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::benchmarks {

/// A model as plain calls of ops, and the update rule that the peers' programs
/// use for it. It defines the arithmetic of a step.
struct workload {
  std::string_view name;
  shape example; ///< Shape of one input.
  std::vector<parameter_spec> parameters;
  tensor (*forward)(std::span<const variable> own, const tensor& x);
  update_rule rule;
  /// Bytes per example that backward needs from forward: the result of every
  /// layer, and one byte per output of a pooling layer.
  std::size_t activation_bytes;
};

/// @returns the workload "mlp" or "lenet".
/// @errors throws std::invalid_argument for another name.
const workload& find_workload(std::string_view name);

/// @returns the update rule of the workload. Below batch 16, the learning rate
/// is divided by 10, because training on few examples of noise would diverge.
/// The learning rate does not change the time of a step.
update_rule rule_for(const workload& model, std::uint64_t batch);

/// Number of prepared batches; the peers' programs use the same number.
inline constexpr std::uint64_t prepared_batches = 16;
/// @returns batches of noise with a fixed seed. Reading a batch copies nothing.
data::dataset synthetic_batches(const workload& model, std::uint64_t batch);

} // namespace troupe::benchmarks
