#pragma once

#include "troupe/strategies/membership/messages.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Says why the leader rejects a process: "worker 1 has version 2.0, but chief
/// 0 1.0".
/// @param names names of the processes, by task.
std::string describe(const membership::rejection& why,
                     const std::vector<std::string>& names);

} // namespace troupe
