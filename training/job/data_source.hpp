#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <string_view>

namespace troupe {

/// Opens training and test examples by name:
///
///   digits            12,000 generated digits for training, 2,000 for testing
///   digits:N          N generated digits, a seventh of them for testing
///   mnist:FOLDER      MNIST's IDX files, plain or gzip
///   csv:FILE          a table with the label in its last column
///   csv:FILE:COLUMN   a table with the label in the named column
///
/// Each call selects the same random fifth of a table's rows for testing.
///
/// @errors throws std::invalid_argument for any other name, and the exception
///         of a failed read.
data::dataset::train_test open_data(std::string_view name);

/// Opens the examples for a prediction, in their order. These are the test
/// examples of digits and MNIST, or all rows of a table. `idx:FILE` names
/// images without labels, and every image gets the label 0.
data::dataset open_to_predict(std::string_view name);

} // namespace troupe
