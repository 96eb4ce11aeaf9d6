#pragma once

#include <filesystem>

namespace troupe::net {

/// Returns the folder for temporary files: the value of TMPDIR, TMP, TEMP or
/// TEMPDIR, the first that is set, or /tmp.
/// @errors throws std::runtime_error with the variable, its value and a remedy
///         if it names no folder.
std::filesystem::path temporary_folder();

} // namespace troupe::net
