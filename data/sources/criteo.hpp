#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <cstdint>
#include <filesystem>

namespace troupe::data {

struct criteo_options {
  /// Categories are hashed to numbers in [0, rows). From 2 to 2^24.
  std::int64_t rows = 100'000;
  /// False: the labels are not read, and lines may lack them.
  bool labelled = true;
};

/// Reads clicks in the format of Criteo's logs: one line for each example, with
/// fields that are separated by tabs. The first field is the label (1: a click,
/// 0: none). Then come 13 integers, "I1" to "I13", and 26 categories of 1 to 8
/// hexadecimal digits, "C1" to "C26". Integers and categories may be empty.
/// Lines end in LF or CRLF. Blank lines at the end are ignored.
///
/// An integer x becomes log(1 + max(x, 0)); an empty one counts as 0. A
/// category is hashed to a number in [1, rows) by the finalizer of MurmurHash3.
/// Two categories may get one number. An empty one becomes 0.
///
/// @shape inputs [n, 13] float32; the tensor "categories" [n, 26] int32; labels
///        [n, 1] float32, or none.
/// @errors throws std::runtime_error that names file, line, column and value;
///         std::invalid_argument for a number of rows out of range.
/// @cost reads the file into memory, at most 2 GiB; 160 bytes an example.
/// @source the Kaggle Display Advertising Challenge data set of Criteo Labs.
dataset criteo(const std::filesystem::path& name,
               const criteo_options& options = {});

} // namespace troupe::data
