#pragma once

#include "troupe/models/description.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// Returns a model with 669,706 parameters for images of 28 x 28. It has two
/// hidden layers of 512 units with relu, and 10 outputs.
model_description mlp();

/// Returns a model with 3,274,634 parameters for images of 28 x 28. It has two
/// convolutions with pooling, and two dense layers.
/// @source LeCun et al., "Gradient-based learning applied to document
///         recognition", 1998, with the wider layers of current tutorials.
model_description lenet();

/// Returns the names of the built-in models, sorted.
std::vector<std::string> zoo_names();

/// Finds a built-in model by name, or loads a description from a file.
/// @param name name of a built-in model, such as "lenet", or a path. A path
///        ends in ".json" or contains a "/".
/// @errors throws std::invalid_argument. The error lists the known names if no
///         model has the name. For a path it is the error of `load`.
model_description find_model(std::string_view name);

} // namespace troupe::models
