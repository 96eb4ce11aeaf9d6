#pragma once

#include "troupe/models/metrics.hpp"
#include "troupe/training/job/job.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Returns the metrics of a run of the tool: for clicks with the loss
/// "binary_cross_entropy", the area under the ROC curve. None: those that `fit`
/// computes by default.
std::optional<std::vector<models::metric>>
metrics_of(const train_config& config);

/// Returns the built-in metrics with these names: accuracy, auc,
/// mean_absolute_error, root_mean_squared_error.
/// @param loss of the model. With "binary_cross_entropy" its outputs are
///        scores, of which `auc` takes the sigmoid.
/// @errors throws std::invalid_argument for another name.
std::vector<models::metric> metrics_named(const std::vector<std::string>& names,
                                          const std::string& loss);

/// Checks that the run has the value that early stopping monitors. No effect
/// without early stopping.
/// @errors throws std::invalid_argument that names --monitor.
void check_monitor(const train_config& config);

} // namespace troupe
