#pragma once

#include <array>
#include <string>

// Names of the enumerators in layer settings.

namespace troupe::models {

/// Returns the names of the values of troupe::activation, in order.
inline const std::array<std::string, 2>& activation_names() {
  static const std::array<std::string, 2> names{"none", "relu"};
  return names;
}

/// Returns the names of the values of troupe::padding, in order.
inline const std::array<std::string, 2>& padding_names() {
  static const std::array<std::string, 2> names{"valid", "same"};
  return names;
}

} // namespace troupe::models
