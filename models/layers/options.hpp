#pragma once

#include "troupe/tensors/ops/conv2d.hpp"

#include <array>
#include <string>

// How descriptions spell the settings that layers share.

namespace troupe::models {

/// By value of troupe::activation.
inline const std::array<std::string, 2> activation_names{"none", "relu"};

/// By value of troupe::padding.
inline const std::array<std::string, 2> padding_names{"valid", "same"};

} // namespace troupe::models
