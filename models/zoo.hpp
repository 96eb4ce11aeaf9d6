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

/// Returns a model with 41,743,105 parameters that predicts clicks. An example
/// has 13 numbers and 26 categories, each of which has 100,000 rows of 16
/// elements. These and the numbers are the input of dense layers with 256, 128
/// and 1 units. There is no linear part beside them. The output is a score for
/// the loss "binary_cross_entropy".
/// @source Cheng et al., "Wide & deep learning for recommender systems", DLRS
///         2016: the deep part.
model_description wide_deep();

/// Returns the names of the built-in models, sorted.
std::vector<std::string> zoo_names();

/// Finds a built-in model by name, or loads a description from a file.
/// @param name name of a built-in model, such as "lenet", or a path. A path
///        ends in ".json" or contains a "/".
/// @errors throws std::invalid_argument. The error lists the known names if no
///         model has the name. For a path it is the error of `load`.
model_description find_model(std::string_view name);

} // namespace troupe::models
