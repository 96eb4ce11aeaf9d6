#pragma once

#include "troupe/tensors/device_backend.hpp"

#include <string>

namespace troupe::cuda {

/// Returns the CUDA devices of this machine. Null: there are none, or no
/// driver. Always the same object, which exists until the process ends.
/// @cost loads the driver at the first call.
device_backend* find_devices();

/// Says why there are none, and what would do.
/// @pre `find_devices` returns null.
std::string why_no_devices();

} // namespace troupe::cuda
