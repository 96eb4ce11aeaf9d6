#pragma once

#include "troupe/net/session/channel.hpp"
#include "troupe/strategies/membership/view_messages.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// Reads a message of a view change.
/// @param task_count number of tasks of the job.
/// @returns why the message is malformed. Empty: it was read.
std::string read_view_change(const net::frame& frame, std::uint32_t task_count,
                             view_change::message& message);

} // namespace troupe
