#pragma once

#include "troupe/training/job/job.hpp"

#include <string>

// What the files that settle a job share.

namespace troupe {

/// "--option value: why"
[[noreturn]] void refuse_option(const std::string& option,
                                const std::string& value,
                                const std::string& why);

std::uint64_t at_least_one(const char* option, std::int64_t x,
                           std::uint64_t most);

/// The part of a job that says where it computes.
void settle_where(const job& x, settled_job& out);

} // namespace troupe
