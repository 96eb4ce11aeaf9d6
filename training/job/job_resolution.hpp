#pragma once

#include "troupe/training/job/job.hpp"

#include <string>

// Functions shared by the files that resolve the options of a run.

namespace troupe {

/// Throws std::invalid_argument with "option value: reason".
[[noreturn]] void refuse_option(const std::string& option,
                                const std::string& value,
                                const std::string& why);

std::uint64_t at_least_one(const char* option, std::int64_t x,
                           std::uint64_t most);

/// Resolves the options that choose strategy, devices, replicas and workers.
void settle_where(const job& x, settled_job& out);

} // namespace troupe
