#pragma once

#include "train.hpp"
#include "troupe/training/job/job.hpp"

#include <filesystem>
#include <string>

/// Evaluates a run with parameter servers: waits for the file to which its
/// chief saves the model, and evaluates each new version on the test data. If
/// several versions were saved meanwhile, it evaluates the last one. Prints a
/// line for each. Ends after the version whose run is complete, or at SIGINT or
/// SIGTERM.
/// @returns the exit code.
/// @errors throws std::invalid_argument if `arguments` names no file.
int evaluate_versions(const train_arguments& arguments,
                      const troupe::train_config& config);

/// Environment variable with the version of the file that is not one of the
/// run, because it was there before. Not set: there was none.
inline constexpr auto earlier_version_variable = "TROUPE_EARLIER_VERSION";

/// Returns a text that identifies a version of a file. Empty: there is no such
/// file.
std::string version_of(const std::filesystem::path& file);
