#pragma once

#include "troupe/training/job/job.hpp"

#include <string>

namespace troupe {

/// `write_train_options` converts the options to a text, which is saved as the
/// note of a model. `read_train_options` converts this text to options.
/// @errors `read_train_options` throws std::runtime_error if the text does not
///         contain options.
std::string write_train_options(const train_options& options);
train_options read_train_options(const std::string& text);

/// Merges the options of a saved run with the changes that the user gives to
/// resume the run.
/// @errors throws std::invalid_argument if a change could lead to other weights
///         than an uninterrupted run. The user may change --epochs, the
///         placement (`change_placement`), --on-nan, --audit-steps and
///         --on-deviation.
train_options merge_for_resume(const train_options& saved,
                               const train_options& changes);

} // namespace troupe
