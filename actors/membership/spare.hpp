#pragma once

#include "troupe/net/base/address.hpp"
#include "troupe/net/base/log_function.hpp"

#include <chrono>
#include <string>

namespace troupe {

/// Waits until no process of this host listens on an address. A spare waits in
/// this way for the end of the process that has its task. It sends nothing to
/// the job meanwhile. It logs a warning when it begins to wait.
/// @param address address of the task, or that on which this process listens.
/// @param task    name of the task.
/// @errors throws `job_error` (ec::stalled) if the timeout expires, and
///         std::runtime_error if this host does not have the address.
/// @cost   an attempt to listen every 100 ms.
void wait_as_spare(const net::address& address, const std::string& task,
                   std::chrono::milliseconds timeout,
                   const net::log_function& log);

} // namespace troupe
