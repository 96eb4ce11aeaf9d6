#pragma once

#include <array>
#include <string>

// Names of the enumerators that layer settings share.

namespace troupe::models {

/// Names in the order of the values of troupe::activation.
inline const std::array<std::string, 2>& activation_names() {
  static const std::array<std::string, 2> names{"none", "relu"};
  return names;
}

/// Names in the order of the values of troupe::padding.
inline const std::array<std::string, 2>& padding_names() {
  static const std::array<std::string, 2> names{"valid", "same"};
  return names;
}

} // namespace troupe::models
