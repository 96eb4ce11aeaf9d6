#pragma once

#include "troupe/training/job/job.hpp"

namespace troupe {

/// Resolves the options that choose strategy, devices, replicas and workers.
void resolve_placement(const train_options& options, train_config& out);

} // namespace troupe
