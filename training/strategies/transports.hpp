#pragma once

#include <string>

namespace troupe {

class cluster;

/// Returns the transports of tensors to the other workers of the current view.
/// If the transports differ, joins their names: "shm+tcp". "none": this worker
/// has no lane to another one.
std::string transports_of(const cluster& joined);

} // namespace troupe
