#pragma once

#include <string>

namespace troupe {

/// Throws std::logic_error: the program has called an operation where that is
/// not possible.
/// @param what the operation, such as "scope()".
/// @param why completes "<what> was called ", such as "in a step".
[[noreturn]] void throw_misuse(const std::string& what, const std::string& why);

} // namespace troupe
