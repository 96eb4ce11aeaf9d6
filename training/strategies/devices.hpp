#pragma once

#include "troupe/tensors/device.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Parses the names of a strategy's devices. Each device has one replica.
/// @errors throws std::invalid_argument if no device is named, a device does
///         not exist, or a device is named twice.
std::vector<device> parse_devices(const std::vector<std::string>& names);

/// @errors throws std::invalid_argument if `threads` is less than one.
void check_threads(int threads);

} // namespace troupe
