#pragma once

#include "troupe/strategies/membership/messages.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// Decides whether a process accepts a stream of a view from another process.
/// @param current the view that the acceptor has taken. Its id is zero before
///                the first one.
/// @param view_id id of the view for which the stream was opened.
/// @param names   display names, by task.
/// @returns why the stream is refused. Empty: it is accepted.
std::string stream_refusal(const membership::view& current,
                           const membership::join_request& dialer,
                           std::uint64_t view_id,
                           const std::vector<std::string>& names,
                           std::uint32_t own_task);

} // namespace troupe
