#include "troupe/actors/membership/elastic_group/lane_failure.hpp"

namespace troupe {

std::vector<std::uint32_t> members_without_streams(const peer_table& peers,
                                                   const membership::view& of,
                                                   std::uint32_t first) {
  std::vector<std::uint32_t> failed, missing;
  for (const auto& x : of.members) {
    if (peers.streams.has_failed(of.view_id, x.task))
      failed.push_back(x.task);
    if (x.task >= first && x.incarnation != peers.own_incarnation
        && !peers.streams.has_all(of.view_id, x))
      missing.push_back(x.task);
  }
  return failed.empty() ? missing : failed;
}

} // namespace troupe
