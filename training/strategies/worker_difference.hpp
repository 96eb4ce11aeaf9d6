#pragma once

#include <string>

namespace troupe {

/// Describes the first line in which the descriptions of two workers differ.
/// @param a text of worker 0, or of `owner_of_a`.
/// @param b text of another worker.
std::string difference(const std::string& a, const std::string& b,
                       const std::string& owner_of_a = "worker 0");

} // namespace troupe
