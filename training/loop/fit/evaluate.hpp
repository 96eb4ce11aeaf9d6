#pragma once

#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/loop/options/history.hpp"

#include <memory>
#include <string>

namespace troupe {

/// Evaluates the model on all batches. The pointer is shared, because a stuck
/// replica may still use the model after this function has returned.
/// @param name as `job_call::name`.
evaluation evaluate(const std::shared_ptr<model_state>& state,
                    const data::dataset& batches, const metric_list& metrics,
                    const std::string& name = "evaluate");

/// Computes the outputs of the model for a batch of inputs, or for all batches
/// of a dataset.
tensor predict(const model_state& state, const models::model_inputs& inputs);
tensor predict(const model_state& state, const data::dataset& batches);

} // namespace troupe
