#include "troupe/actors/membership/peers/stream_table.hpp"

#include <algorithm>

namespace troupe {

void stream_table::add(const stream_id& id,
                       std::unique_ptr<net::stream> stream) {
  streams_[id] = std::move(stream);
}

bool stream_table::has_all(std::uint64_t view_id,
                           const membership::member& member) const {
  return std::ranges::all_of(lane_purposes, [&](const char* purpose) {
    return streams_.contains(
      {view_id, member.task, member.incarnation, purpose});
  });
}

std::vector<std::unique_ptr<net::stream>>
stream_table::take_all(std::uint64_t view_id,
                       const membership::member& member) {
  std::vector<std::unique_ptr<net::stream>> out;
  for (const auto* purpose : lane_purposes) {
    const auto found =
      streams_.find({view_id, member.task, member.incarnation, purpose});
    out.push_back(std::move(found->second));
    streams_.erase(found);
  }
  return out;
}

void stream_table::note_failure(std::uint64_t view_id, std::uint32_t task,
                                const std::string& why) {
  failures_[{view_id, task}] = why;
}

std::string stream_table::failure(std::uint64_t view_id) const {
  const auto found = failures_.lower_bound({view_id, 0});
  return found != failures_.end() && found->first.first == view_id
           ? found->second
           : std::string{};
}

void stream_table::forget_before(std::uint64_t view_id) {
  std::erase_if(streams_,
                [&](const auto& x) { return x.first.view_id < view_id; });
  std::erase_if(failures_,
                [&](const auto& x) { return x.first.first < view_id; });
}

} // namespace troupe
