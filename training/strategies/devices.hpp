#pragma once

#include "troupe/tensors/device.hpp"

#include <string>
#include <vector>

namespace troupe {

/// The devices of a strategy, one replica on each.
/// @errors throws std::invalid_argument for none, one that there is not, and
///         one named twice.
std::vector<device> parse_devices(const std::vector<std::string>& names);

/// @errors throws std::invalid_argument for less than one.
void check_threads(int threads);

} // namespace troupe
