#pragma once

#include "troupe/strategies/error_code.hpp"
#include "troupe/strategies/failure_report.hpp"

#include <memory>
#include <stdexcept>
#include <string>

namespace troupe {

/// Reports the failure of a job as an exception, for callers that use no
/// actors.
struct job_error : std::runtime_error {
  /// An error with a report of the kind `unspecified`.
  job_error(ec code, const std::string& message)
    : job_error{failure_report{.code = code, .cause = message}, message} {}
  /// @param message the sentence of the report (failure_text.hpp).
  job_error(failure_report report, const std::string& message)
    : std::runtime_error{message},
      code{report.code},
      report_{std::make_shared<const failure_report>(std::move(report))} {}

  /// Returns the failure as data: which processes or replicas were lost, in
  /// which step, and which role waited for what. The reference is valid while a
  /// copy of this exception exists.
  const failure_report& report() const noexcept { return *report_; }

  ec code;

private:
  /// Shared, so that a copy of the exception cannot throw.
  std::shared_ptr<const failure_report> report_;
};

} // namespace troupe
