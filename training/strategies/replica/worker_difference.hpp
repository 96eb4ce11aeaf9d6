#pragma once

#include <string>

namespace troupe {

/// Describes the first line in which the descriptions of two workers differ,
/// after the name of the second one and "has".
/// @param worker name of the worker with the text `a`.
/// @param a      text of that worker.
/// @param b      text of the other worker.
std::string difference(const std::string& worker, const std::string& a,
                       const std::string& b);

} // namespace troupe
