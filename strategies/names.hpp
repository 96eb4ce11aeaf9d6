#pragma once

#include <string>
#include <vector>

namespace troupe {

/// Joins names for people: "a", "a and b", or "a, b and c".
std::string join_words(const std::vector<std::string>& names);

} // namespace troupe
