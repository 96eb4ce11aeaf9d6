#pragma once

#include "troupe/training/job/job.hpp"

#include <string>

namespace troupe {

/// `write_train_options` converts the given options to a text for a saved
/// model; `read_train_options` converts it back.
/// @errors `read_train_options` throws std::runtime_error if the text does not
///         contain options.
std::string write_train_options(const train_options& options);
train_options read_train_options(const std::string& text);

/// Merges the options of a saved run with those of its resumption.
/// @errors throws std::invalid_argument if an option would change the weights,
///         compared with those of an uninterrupted run. Allowed are --epochs,
///         --strategy, --devices, --replicas, --workers (if the number of
///         replicas stays), --transport and --on-nan.
train_options merge_for_resume(const train_options& saved,
                               const train_options& changes);

} // namespace troupe
