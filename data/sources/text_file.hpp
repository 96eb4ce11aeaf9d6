#pragma once

#include <filesystem>
#include <string>

namespace troupe::data {

/// Reads a text file.
/// @errors throws std::runtime_error that names the file, also for a compressed
///         one and for more than 2 GiB.
std::string read_text(const std::filesystem::path& name);

} // namespace troupe::data
