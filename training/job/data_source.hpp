#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <string_view>

namespace troupe {

/// Opens training and test examples by name:
///
///   digits            12,000 drawn digits to train on and 2,000 to test
///   digits:N          N digits, a seventh of which is for testing
///   mnist:FOLDER      MNIST's IDX files, plain or gzip
///   csv:FILE          a table, the label in its last column; a fifth of its
///   csv:FILE:COLUMN   rows, drawn at random once, is for testing
///
/// @errors throws std::invalid_argument for any other name, and what reading
///         throws; each message is a sentence.
data::dataset::train_test open_data(std::string_view name);

/// Opens examples to predict for, in their order: the test examples of digits
/// and MNIST, all rows of a table. `idx:FILE` names images without labels,
/// which all get the label 0.
data::dataset open_to_predict(std::string_view name);

} // namespace troupe
