#include "troupe/actors/membership/view_changes/view_change_frame.hpp"

#include "troupe/net/codec/codec.hpp"

#include <algorithm>

namespace troupe {

std::string read_view_change(const net::frame& frame, std::uint32_t task_count,
                             view_change::message& message) {
  if (const auto fault = net::decode(frame.payload, message))
    return "a message of a view change is malformed: " + to_string(*fault);
  const auto is_malformed = [&](const membership::member& x) {
    return x.task >= task_count || x.host.empty() || x.port == 0;
  };
  if (std::ranges::any_of(message.known.joining, is_malformed))
    return "a message of a view change names an impossible process";
  for (const auto& x : message.proposals)
    for (const auto& member : x.proposal.next.members)
      if (member.task >= task_count)
        return "a message of a view change names task "
               + std::to_string(member.task) + " of "
               + std::to_string(task_count);
  return {};
}

} // namespace troupe
