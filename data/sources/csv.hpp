#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <filesystem>
#include <string>

namespace troupe::data {

struct csv_options {
  std::string label = {}; ///< Name of the label column. Empty: the last column.
  /// Number of classes. Zero: the maximum label + 1, which is at most 65536.
  std::int64_t classes = 0;
};

/// Reads examples from a CSV file: a header line with the column names, then
/// one line for each example. Fields are numbers with decimal points, separated
/// by commas and optionally quoted. Lines end in LF or CRLF. Supports
/// classification only: labels are class numbers 0, 1, 2, ...
///
/// @shape inputs [n, columns - 1] float32 in column order; labels [n].
/// @errors throws std::runtime_error that names file, line, column and value.
///         Throws std::invalid_argument that lists the columns, if the label
///         column is unknown.
/// @cost reads the file into memory, at most 2 GiB.
dataset csv(const std::filesystem::path& name, const csv_options& options = {});

} // namespace troupe::data
