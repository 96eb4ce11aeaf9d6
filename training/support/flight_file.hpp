#pragma once

#include "troupe/actors/flight/flight_record.hpp"

#include <filesystem>

namespace troupe {

/// Returns the name of the file of a record:
/// `troupe-flight-<job>-<task>-<incarnation>.bin`. Characters of the job's name
/// that are not letters, digits, '.', '_' or '-' become '_'.
std::string flight_file_name(const flight_identity& identity);

/// Writes a record to a file in a directory, which must exist. The file appears
/// complete or not at all, and replaces an earlier one of the same process.
/// @returns the path of the file.
/// @errors throws std::runtime_error that names the file.
std::filesystem::path write_flight_file(const std::filesystem::path& directory,
                                        const flight_record& record);

/// Removes the unfinished files of processes that were killed while they wrote
/// a record.
void remove_unfinished_flight_files(const std::filesystem::path& directory);

/// Reads a file that `write_flight_file` has written.
/// @errors throws std::runtime_error that names the file and what is wrong.
flight_record read_flight_file(const std::filesystem::path& path);

} // namespace troupe
