#pragma once

#include "troupe/apps/troupe/commands/train.hpp"
#include "troupe/training/job/job.hpp"

/// Evaluates a run with parameter servers. Waits for the file to which its
/// chief saves the model, and evaluates each new version on the test data. If
/// several versions were saved meanwhile, it evaluates the last one. Prints a
/// line for each. Ends after the version whose run is complete, or at SIGINT or
/// SIGTERM. Without `earlier_version_variable` in the environment, the version
/// that is there at the start may be that of an earlier run. Such a version is
/// evaluated, and does not end this process.
/// @returns the exit code.
/// @errors throws std::invalid_argument if `arguments` names no file.
int evaluate_versions(const train_arguments& arguments,
                      const troupe::train_config& config);
