#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/models/losses.hpp"

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
/// Each call selects the same random fifth of a table's rows for testing. Logs
/// a warning if a table's header contains numbers only.
///
/// @param targets Labels of a table are class numbers for
///        `target_kind::classes`, else float32 [n, 1].
/// @errors throws std::invalid_argument for any other name, and the exception
///         of a failed read.
data::dataset::train_test
open_data(std::string_view name,
          models::target_kind targets = models::target_kind::classes);

/// Opens the examples for a prediction, in their order. These are the test
/// examples of digits and MNIST, or all rows of a table. The label column of a
/// table is not read. Two more names are possible: `csv:FILE:`, a table without
/// a label column, and `idx:FILE`, images without labels.
data::dataset open_to_predict(std::string_view name);

} // namespace troupe
