#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <filesystem>
#include <string>

namespace troupe::data {

struct csv_options {
  std::string label = {};   ///< The label's column; empty: the last.
  std::int64_t classes = 0; ///< 0: the largest label + 1, at most 65536.
};

/// Reads examples from a table: a header line with the columns' names, then a
/// line for each example: numbers separated by commas, decimal points, fields
/// in quotes or not, lines that end in LF or CRLF. For classification only:
/// labels are class numbers 0, 1, 2, ...; targets for regression are not read.
///
/// @shape inputs [n, columns - 1] float32 in the columns' order; labels [n].
/// @errors throws std::runtime_error with a sentence that names file, line,
///         column and value; std::invalid_argument for an unknown label column,
///         with those that there are.
/// @cost reads the file into memory, at most 2 GiB.
dataset csv(const std::filesystem::path& name, const csv_options& options = {});

} // namespace troupe::data
