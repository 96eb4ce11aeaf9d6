#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <cstdint>
#include <filesystem>

namespace troupe::data {

/// Reads an IDX file of bytes, plain or gzip-compressed.
/// @returns a uint8 tensor of the shape that the file declares.
/// @param max_elements Maximum number of elements.
/// @errors throws std::runtime_error that names the file if it is missing,
///         damaged, not IDX, of another type, larger than `max_elements`, or of
///         another size than declared. Memory is allocated only after the
///         declared size was checked against the file size.
tensor read_idx(const std::filesystem::path& name,
                std::uint64_t max_elements = std::uint64_t{1} << 30);

/// Reads MNIST, or data in its format: train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte.
/// Each file may end in ".gz", and may have ".idx" in place of "-idx". If the
/// train files are missing, the first 8,000 examples of t10k are for training
/// and the rest for testing.
///
/// @shape inputs [n, 28, 28, 1] float32 in [0, 1]; labels [0, classes).
/// @param classes as of EMNIST's letters, whose labels 1 to 26 are those of 27.
/// @errors throws std::runtime_error that names the file.
/// @cost one byte a pixel.
dataset::train_test mnist(const std::filesystem::path& folder,
                          std::int64_t classes = 10);

} // namespace troupe::data
