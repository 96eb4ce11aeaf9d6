#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <string_view>

namespace troupe {

/// Training and test examples by name:
///
///   digits            12,000 drawn digits to train on and 2,000 to test
///   digits:N          N of them, a seventh of which is for testing
///   mnist:FOLDER      MNIST's IDX files, plain or gzip
///   csv:FILE          a table, the label in its last column; a fifth of its
///   csv:FILE:COLUMN   rows, drawn at random once, is for testing
///
/// @errors throws std::invalid_argument for a name that is none of these, and
///         what reading throws; each a sentence.
data::dataset::parts open_data(std::string_view name);

/// Examples to predict for, in their order: the test examples of digits and
/// MNIST, all rows of a table; also `idx:FILE`, images without labels, each of
/// which gets the label 0.
data::dataset open_to_predict(std::string_view name);

} // namespace troupe
