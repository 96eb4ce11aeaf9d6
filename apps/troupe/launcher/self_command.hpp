#pragma once

#include <string>
#include <vector>

/// Returns the command line of this process, with the path of its executable.
/// @errors throws std::runtime_error if the system does not tell it.
std::vector<std::string> self_command();
