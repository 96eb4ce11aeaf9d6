#pragma once

#include "troupe/models/metrics.hpp"
#include "troupe/training/job/job.hpp"

#include <optional>
#include <vector>

namespace troupe {

/// Returns the metrics of a run of the tool: for clicks with the loss
/// "binary_cross_entropy", the area under the ROC curve. None: those that `fit`
/// computes by default.
std::optional<std::vector<models::metric>>
metrics_of(const train_config& config);

} // namespace troupe
