#pragma once

#include "troupe/training/job/job.hpp"

#include <string>

// Functions shared by the files that resolve the options of a run.

namespace troupe {

/// Throws std::invalid_argument with "option value: reason".
[[noreturn]] void reject_option(const std::string& option,
                                const std::string& value,
                                const std::string& reason);

std::uint64_t check_positive(const char* option, std::int64_t value,
                             std::uint64_t max);

} // namespace troupe
