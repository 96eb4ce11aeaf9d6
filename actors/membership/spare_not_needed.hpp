#pragma once

#include "troupe/actors/core/job_error.hpp"

namespace troupe {

/// The job has ended while a spare for any task waited, so the spare was not
/// needed. A program usually ends with success then.
struct spare_not_needed : job_error {
  using job_error::job_error;
};

} // namespace troupe
