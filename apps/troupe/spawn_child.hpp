#pragma once

#include "child_processes.hpp"
#include "troupe/net/base/descriptor.hpp"

#include <sys/types.h>

/// A process that runs, and what one hears of it by.
struct process {
  pid_t id = 0;
  troupe::net::descriptor life; ///< Can be read once it has ended.
  troupe::net::descriptor out, err;
};

/// @errors as `children::start`.
process start_process(const child_program& what);
