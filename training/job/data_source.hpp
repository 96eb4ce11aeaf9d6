#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/models/losses.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Names of the columns of a table, in the order of the inputs and of the
/// labels. Empty: the data is no table.
struct table_columns {
  std::vector<std::string> inputs, labels;
};

struct opened_data {
  data::dataset train, test;
  table_columns columns;
};

/// Opens training and test examples by name:
///
///   digits            12,000 generated digits for training, 2,000 for testing
///   digits:N          N generated digits, a seventh of them for testing
///   mnist:FOLDER      MNIST's IDX files, plain or gzip
///   csv:FILE          a table with the label in its last column
///   csv:FILE:COLUMN   a table with the label in the named column
///   clicks            60,000 generated clicks for training, 10,000 for testing
///   clicks:N          N generated clicks, a seventh of them for testing
///   criteo:FILE       clicks in the format of Criteo's logs, with 100,000 rows
///                     for each category
///
/// Each call selects the same random fifth of a file's examples for testing.
/// Logs a warning if a table's header contains numbers only.
///
/// @param targets Labels of a table are class numbers for
///        `target_kind::classes`, else float32 [n, 1]. Those of clicks are
///        float32 [n, 1].
/// @param wanted the columns of a table, which are found by their names in any
///        order, except for a label that `name` gives. Empty: those that
///        `name` says, in the order of the table.
/// @errors throws std::invalid_argument for any other name, and the exception
///         of a failed read.
opened_data
open_data(std::string_view name,
          models::target_kind targets = models::target_kind::classes,
          const table_columns& wanted = {});

/// Part of the examples of a source.
enum class data_split : std::uint8_t {
  training, ///< Examples on which `troupe train` trains.
  test,     ///< Examples that are kept for testing.
  all,      ///< Both, in the order of the source.
};

/// Opens the training examples, the test examples, or all examples by name, as
/// `open_data`.
/// @errors as `open_data`; also throws std::invalid_argument for all examples
///         of MNIST, whose files have two sets.
data::dataset open_split(std::string_view name, data_split split,
                         models::target_kind targets,
                         const table_columns& wanted = {});

/// Returns the loss for data of this name if the user gives none:
/// "binary_cross_entropy" for clicks, else "softmax_cross_entropy".
std::string_view default_loss(std::string_view data);

/// Opens the examples for a prediction, in their order. These are the test
/// examples of digits, MNIST and generated clicks, or all examples of a file.
/// The labels in a file are not read. Two more names are possible: `csv:FILE:`,
/// a table without a label column, and `idx:FILE`, images without labels.
/// @param inputs columns of a table that are the inputs, as `wanted` of
///        `open_data`. All other columns are not read.
data::dataset open_to_predict(std::string_view name,
                              const std::vector<std::string>& inputs = {});

} // namespace troupe
