#pragma once

#include "troupe/training/parameter_server/server_variable.hpp"

namespace troupe {

/// Returns the value of a scalar on the servers.
inline float number(const server_variable& x) {
  return x.value().item<float>();
}

} // namespace troupe
