#pragma once

#include "troupe/tests/strategies/checked_job.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// A protocol that runs under random faults.
struct job_protocol {
  std::string name;
  /// Makes the job of a seed.
  std::function<std::unique_ptr<checked_job>(std::uint64_t seed)> make;
};

/// Returns the protocols of which there are random jobs.
const std::vector<job_protocol>& job_protocols();

} // namespace troupe
