#pragma once

#include <array>
#include <string>

// How descriptions spell the settings that layers share.

namespace troupe::models {

/// By value of troupe::activation.
inline const std::array<std::string, 2>& activation_names() {
  static const std::array<std::string, 2> names{"none", "relu"};
  return names;
}

/// By value of troupe::padding.
inline const std::array<std::string, 2>& padding_names() {
  static const std::array<std::string, 2> names{"valid", "same"};
  return names;
}

} // namespace troupe::models
