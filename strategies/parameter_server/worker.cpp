#include "troupe/strategies/parameter_server/worker.hpp"

namespace troupe::parameter_server {

worker::worker(std::uint64_t self, std::uint32_t shards)
  : self_{self}, shards_(shards) {}

worker_reaction worker::on_view(const worker_view& next) {
  if (next.view_id <= view_.view_id)
    return {};
  view_ = next;
  for (auto& one : shards_)
    one.serves = false;
  return on_timeout();
}

worker_reaction worker::push(std::uint32_t shard, const push_id& id,
                             std::uint64_t read_version, payload gradient) {
  auto& at = shards_.at(shard);
  const auto [kept, is_new] =
    at.pushes.try_emplace(id, read_version, std::move(gradient));
  if (!at.serves)
    return {};
  return {send_push{view_.primaries[shard],
                    shard,
                    {view_.view_id, id, read_version},
                    kept->second.gradient}};
}

worker_reaction worker::pull(std::uint32_t shard, std::uint32_t replica,
                             std::uint64_t step,
                             std::vector<std::uint32_t> parts) {
  auto& at = shards_.at(shard);
  auto& wanted = at.pulls[replica];
  wanted = {view_.view_id, replica, step, std::move(parts)};
  if (!at.serves)
    return {};
  return {send_pull{view_.primaries[shard], shard, wanted}};
}

worker_reaction worker::on(std::uint32_t shard, const pushed& received) {
  auto& at = shards_.at(shard);
  if (received.result == push_result::stale_view)
    return {}; // sent again in the next view
  if (at.pushes.erase(received.id) == 0)
    return {}; // a repeated answer
  switch (received.result) {
    case push_result::accepted:
    case push_result::repeated:
      return {push_done{shard, received.id}};
    case push_result::dropped:
      return {push_done{shard, received.id, true}};
    default:
      return {worker_error{shard, received.result, received.id}};
  }
}

worker_reaction worker::on(std::uint32_t shard, const pulled& received) {
  auto& at = shards_.at(shard);
  const auto wanted = at.pulls.find(received.replica);
  if (received.view_id != view_.view_id || wanted == at.pulls.end()
      || wanted->second.step != received.step
      || wanted->second.parts.size() != received.versions.size())
    return {}; // of an older pull
  at.pulls.erase(wanted);
  return {pull_done{shard, received.replica, received.step, received.next_step,
                    received.versions}};
}

worker_reaction worker::on(std::uint32_t shard, const serving& received) {
  auto& at = shards_.at(shard);
  worker_reaction out;
  if (received.view_id != view_.view_id || at.serves)
    return out;
  at.serves = true;
  send_all(out, shard);
  return out;
}

worker_reaction worker::on_timeout() {
  worker_reaction out;
  for (std::uint32_t i = 0; i < shards_.size(); ++i)
    if (shards_[i].serves)
      send_all(out, i);
    else if (i < view_.primaries.size())
      out.push_back(
        send_accepted{view_.primaries[i], i, {view_.view_id, self_}});
  return out;
}

void worker::send_all(worker_reaction& out, std::uint32_t shard) const {
  const auto& at = shards_[shard];
  for (const auto& [id, kept] : at.pushes)
    out.push_back(send_push{view_.primaries[shard],
                            shard,
                            {view_.view_id, id, kept.read_version},
                            kept.gradient});
  for (auto wanted : at.pulls) {
    wanted.second.view_id = view_.view_id;
    out.push_back(send_pull{view_.primaries[shard], shard, wanted.second});
  }
}

std::size_t worker::unacknowledged() const {
  std::size_t out = 0;
  for (const auto& one : shards_)
    out += one.pushes.size();
  return out;
}

} // namespace troupe::parameter_server
