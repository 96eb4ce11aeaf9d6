#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/models/description.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/variable.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::benchmarks {

/// The arithmetic of a training step: a model as direct calls of ops, and an
/// update rule. The programs in benchmarks/peers/ use the same model and rule.
struct workload {
  std::string_view name;
  shape example; ///< Shape of one input.
  /// Parameters that `forward` reads.
  std::vector<parameter_spec> parameters = {};
  /// Null: the model has no form as direct calls of ops.
  tensor (*forward)(std::span<const variable> own, const tensor& x) = nullptr;
  update_rule rule;
  /// Bytes per example that the forward pass keeps for the backward pass. It
  /// keeps the result of every layer. For each output of a pooling layer it
  /// also keeps one byte: the index of the maximum in the window.
  std::size_t activation_bytes;
  std::string loss = "softmax_cross_entropy"; ///< Loss of a model in `fit`.
};

/// Returns the workload "mlp", "lenet", "wide" or "wide_deep". "wide" is an mlp
/// with 257 MiB of parameters, of which each step changes all. "wide_deep" is
/// the built-in model of this name, with a table of 159 MiB, of which a step
/// changes few rows.
/// @errors throws std::invalid_argument for another name.
const workload& find_workload(std::string_view name);

/// Returns the workload's model.
models::model_description description_of(const workload& one);

/// Returns the update rule of the workload. With fewer than 16 examples in a
/// batch, the learning rate is divided by 10: training on so few random
/// examples would diverge. The learning rate does not change the time of a
/// step.
update_rule rule_for(const workload& model, std::uint64_t batch);

/// Number of batches that are generated once and then repeated. The programs in
/// benchmarks/peers/ use the same number.
inline constexpr std::uint64_t prepared_batches = 16;
/// Returns batches of random examples with a fixed seed, whose inputs are on a
/// device. Reading a batch copies nothing.
data::dataset synthetic_batches(const workload& model, std::uint64_t batch,
                                const device& on = {});

} // namespace troupe::benchmarks
