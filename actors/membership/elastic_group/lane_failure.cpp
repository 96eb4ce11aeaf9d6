#include "troupe/actors/membership/elastic_group/lane_failure.hpp"

#include <algorithm>

namespace troupe {

std::vector<std::uint32_t> members_without_streams(const peer_table& peers,
                                                   const membership::view& of,
                                                   std::uint32_t first) {
  std::vector<std::uint32_t> failed, missing;
  for (const auto& x : of.members) {
    if (peers.stream_failures.contains({of.view_id, x.task}))
      failed.push_back(x.task);
    const auto is_open = [&](const char* purpose) {
      return peers.streams.contains(
        {of.view_id, x.task, x.incarnation, purpose});
    };
    if (x.task >= first && x.incarnation != peers.own_incarnation
        && !std::ranges::all_of(lane_purposes, is_open))
      missing.push_back(x.task);
  }
  return failed.empty() ? missing : failed;
}

} // namespace troupe
