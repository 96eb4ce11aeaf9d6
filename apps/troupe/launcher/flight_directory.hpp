#pragma once

#include <filesystem>

/// Sets TROUPE_FLIGHT_DIR for this process and its children, unless the
/// variable is set, also to the empty value.
/// @param directory empty: the working directory.
/// @pre no other thread reads the environment.
void set_flight_directory(const std::filesystem::path& directory);

/// Removes what children have left in that directory that were killed while
/// they wrote a record of the flight recorder. @pre they have ended.
void clean_flight_directory();
