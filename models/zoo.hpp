#pragma once

#include "troupe/models/description.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// Two hidden layers of 512 with relu, and 10 outputs, over images of 28 x 28:
/// 669,706 parameters.
model_description mlp();

/// Two convolutions with pooling and two dense layers over the same images:
/// 3,274,634 parameters.
/// @source LeCun et al., "Gradient-based learning applied to document
///         recognition", 1998, in the wider form of today's tutorials.
model_description lenet();

/// The models above by name, sorted.
std::vector<std::string> ready_names();

/// A ready model by its name, or the description in a file.
/// @param what "lenet", or a path: it ends in ".json" or has a "/".
/// @errors throws std::invalid_argument with the names that would do.
model_description find(std::string_view what);

} // namespace troupe::models
