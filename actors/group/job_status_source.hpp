#pragma once

#include "troupe/actors/protocol/job_status.hpp"

#include <chrono>

namespace troupe {

/// Tells the status of the run of a replica group. Any thread may call it.
class job_status_source {
public:
  virtual ~job_status_source() = default;
  /// Returns generation, step, rate, and why the step is not done. It neither
  /// waits for the run nor delays it.
  /// @param timeout maximum time to wait for the chief. If the chief does not
  ///                answer, the status says so.
  virtual job_status status(std::chrono::milliseconds timeout) = 0;
};

} // namespace troupe
