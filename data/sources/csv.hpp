#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace troupe::data {

struct csv_options {
  /// Name of the column with the class numbers. Empty: the last column. No
  /// effect if there are `targets`, or if `labelled` is false.
  std::string label = {};
  /// Number of classes. Zero: the maximum label + 1, which is at most 65536.
  std::int64_t classes = 0;
  /// Names of the columns with the numbers that a regression learns. An empty
  /// name: the last column. Empty list: the labels are class numbers.
  std::vector<std::string> targets = {};
  /// False: the file has no labels, and all columns are inputs.
  bool labelled = true;
  /// Names of the columns that are inputs, in the order of the inputs. All
  /// others but the labels are not read. Empty: all columns that are neither
  /// labels nor ignored, in column order.
  std::vector<std::string> inputs = {};
  /// Names of columns that are not read. An empty name: the last column.
  std::vector<std::string> ignored = {};
  /// Called with a sentence about a likely mistake that is no error. The header
  /// contains numbers only, or `classes` is 0 and a class below the maximum
  /// label has no example. Empty: not called.
  std::function<void(const std::string&)> warn = {};
};

/// Reads examples from a CSV file: a header line with the column names, then
/// one line for each example. Fields are numbers with decimal points, separated
/// by commas and optionally quoted. A number too small for a float32 becomes 0.
/// Lines end in LF, CRLF or CR. Class labels are the numbers 0, 1, 2, ...,
/// which may be written as 0.0, 1.0, 2.0, ...
///
/// @shape inputs [n, columns that are inputs] float32; labels [n] int32, or [n,
/// targets] float32 in the order
///        of `targets`, or none.
/// @errors throws std::runtime_error that names file, line, column and value,
///         and if two columns that are read have one name. Throws
///         std::invalid_argument that lists the columns, if a column is
///         unknown, and if `classes` is given without class labels.
/// @cost reads the file into memory, at most 2 GiB.
dataset csv(const std::filesystem::path& name, const csv_options& options = {});

/// The examples of a CSV file, and the names of their columns.
struct csv_table {
  dataset examples;
  std::vector<std::string> inputs; ///< In the order of the inputs.
  std::vector<std::string> labels; ///< In the order of the labels.
};

/// Reads a CSV file as `csv` does.
csv_table read_csv(const std::filesystem::path& name,
                   const csv_options& options = {});

} // namespace troupe::data
