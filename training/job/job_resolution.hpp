#pragma once

#include "troupe/training/job/job.hpp"

#include <span>
#include <string>

// Functions shared by the files that resolve the options of a run.

namespace troupe {

/// Throws std::invalid_argument with "option value: reason".
[[noreturn]] void reject_option(const std::string& option,
                                const std::string& value,
                                const std::string& reason);

/// Throws as `reject_option` if `value` is none of the names. The error
/// suggests the most similar name, and lists them.
void check_name(const std::string& option, const std::string& value,
                std::span<const std::string> names);

std::uint64_t check_positive(const char* option, std::int64_t value,
                             std::uint64_t max);

} // namespace troupe
