#pragma once

#include "troupe/tensors/device.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// Parses the names of a strategy's devices. Each device has one replica.
/// @errors throws std::invalid_argument if no device is named, a device does
///         not exist, a device is named twice, and as `why_not_together` says.
std::vector<device> parse_devices(const std::vector<std::string>& names);

/// Returns cpu:0, cpu:1 and so on.
std::vector<device> cpu_devices(std::uint32_t count);

/// Says why the replicas of one process cannot run on these devices. Empty:
/// they can.
std::string why_not_together(const std::vector<device>& devices);

/// @errors throws std::invalid_argument if `threads` is less than one.
void check_threads(int threads);

} // namespace troupe
