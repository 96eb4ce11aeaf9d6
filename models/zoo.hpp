#pragma once

#include "troupe/models/description.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// Two hidden layers of 512 units with relu, and 10 outputs, for images of 28 x
/// 28: 669,706 parameters.
model_description mlp();

/// Two convolutions with pooling and two dense layers, for images of 28 x 28:
/// 3,274,634 parameters.
/// @source LeCun et al., "Gradient-based learning applied to document
///         recognition", 1998, with the wider layers of current tutorials.
model_description lenet();

/// Names of the built-in models, sorted.
std::vector<std::string> zoo_names();

/// Finds a built-in model by name, or loads a description from a file.
/// @param name "lenet", or a path: it ends in ".json" or contains a "/".
/// @errors throws std::invalid_argument with the known names.
model_description find_model(std::string_view name);

} // namespace troupe::models
