#pragma once

#include "troupe/models/description.hpp"
#include "troupe/training/job/job.hpp"

#include <string>

namespace troupe {

/// What the chief of a run with parameter servers tells its workers: all that
/// they would otherwise read again, by value.
struct worker_task {
  train_options options;
  models::model_description model;
  /// Describes the data of the chief, one "name: value" a line. That of a
  /// worker must be equal.
  std::string data;
};

/// Returns the task as JSON.
std::string write_worker_task(const worker_task& x);

/// @errors throws std::runtime_error if the text is no task, and
///         std::invalid_argument as `models::parse`.
worker_task read_worker_task(const std::string& text);

} // namespace troupe
