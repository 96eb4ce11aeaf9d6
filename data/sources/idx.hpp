#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <cstdint>
#include <filesystem>

namespace troupe::data {

/// Reads a file of bytes in the IDX format, plain or gzip.
/// @returns uint8, in the shape that the file states.
/// @param most largest number of elements that is read.
/// @errors throws std::runtime_error with a sentence that names the file: not
///         there, not IDX, of another type, larger than `most`, shorter or
///         longer than it says, damaged. A size is believed, and memory taken,
///         only if the file can hold that much.
tensor read_idx(const std::filesystem::path& name,
                std::uint64_t most = std::uint64_t{1} << 30);

/// MNIST, or what comes in its form: train-images-idx3-ubyte,
/// train-labels-idx1-ubyte and the same with t10k, each plain or ".gz". Where
/// there is no train, the first 8,000 of t10k are for training and the rest for
/// testing.
///
/// @shape inputs [n, 28, 28, 1] float32 in [0, 1]; labels 0-9.
/// @errors throws std::runtime_error with a sentence that names the file.
/// @cost a byte for each pixel.
dataset::parts mnist(const std::filesystem::path& folder);

} // namespace troupe::data
