#pragma once

#include "troupe/training/job/job.hpp"

namespace troupe {

/// Sets strategy, devices, replicas, workers and transport of `out`.
void resolve_placement(const train_options& options, train_config& out);

} // namespace troupe
