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

/// A model as plain calls of ops, with the update rule that the peers train it
/// with: what a step must compute, and nothing that runs it.
struct workload {
  std::string_view name;
  shape example; ///< Of one input.
  std::vector<parameter_spec> parameters;
  tensor (*forward)(std::span<const variable> own, const tensor& x);
  update_rule rule;
  /// Bytes per example that backward needs of forward: every layer's result,
  /// and a byte for each place that a pool chose.
  std::size_t activation_bytes;
};

/// "mlp" or "lenet".
/// @errors throws std::invalid_argument for another name.
const workload& find_workload(std::string_view name);

/// The workload's rule. At a batch below 16 a tenth of its learning rate:
/// training on single examples of noise would diverge, and a step takes as long
/// at one rate as at another.
update_rule rule_for(const workload& of, std::uint64_t batch);

/// As many ready-made batches as the peers' programs train on, of noise of a
/// fixed seed; reading one copies nothing.
inline constexpr std::uint64_t ready_batches = 16;
data::dataset synthetic_batches(const workload& of, std::uint64_t batch);

} // namespace troupe::benchmarks
