#pragma once

#include "troupe/strategies/error_code.hpp"

#include <stdexcept>
#include <string>

namespace troupe {

/// Reports the failure of a job as an exception, for callers that use no
/// actors.
struct job_error : std::runtime_error {
  job_error(ec code, const std::string& message)
    : std::runtime_error{message}, code{code} {}

  ec code;
};

} // namespace troupe
