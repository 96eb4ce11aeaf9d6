#pragma once

#include <string>

namespace troupe {

class cluster;

/// Returns the transports of tensors to the other workers of the current view.
/// If there are several, joins their names: "shm+tcp", or "shm+nccl" if the
/// gradients pass through NCCL. "none": this worker has no lane to another one.
std::string transports_of(const cluster& joined);

} // namespace troupe
