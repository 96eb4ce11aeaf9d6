#pragma once

#include "troupe/tensors/base/hyperparameters.hpp"

#include <string>

// Numbers in texts that are compared: two texts are equal only if the numbers
// are.

namespace troupe {

/// Returns the shortest decimal form that is read as this number.
std::string exact_text(float x);
std::string exact_text(double x);

/// Returns " name=value" for each number.
std::string exact_text(const hyperparameters& all);

} // namespace troupe
