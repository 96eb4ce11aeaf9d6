#pragma once

#include "troupe/strategies/membership/messages.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// The hello of a process that makes its connection to another member of the
/// running job again, as `read_reconnect_hello` reads it.
struct reconnect_request {
  membership::join_request dialer;
  std::uint64_t view_id = 0; ///< Id of the dialer's view.
  /// Incarnation of the process that it dials.
  std::uint64_t dialed = 0;
};

/// Decides whether a process accepts a connection that is made again. A process
/// that the current view has left out is accepted, so that it is told the view.
/// @param current    the view that the acceptor has taken. Its id is zero
///                   before the first one.
/// @param in_job     the acceptor takes part in the running job.
/// @param names      display names, by task.
/// @param own        incarnation of the acceptor.
/// @returns why the connection is refused. Empty: it is accepted.
std::string reconnect_refusal(const membership::view& current, bool in_job,
                              const reconnect_request& request,
                              const std::vector<std::string>& names,
                              std::uint32_t own_task, std::uint64_t own);

} // namespace troupe
