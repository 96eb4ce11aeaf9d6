#include "troupe/strategies/parameter_server/worker.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::parameter_server {

worker::worker(std::uint64_t self, std::uint32_t shards, std::uint64_t training)
  : self_{self}, training_{training}, shards_(shards) {}

worker_reaction worker::on_view(const primary_view& next) {
  if (next.view_id <= view_.view_id)
    return {};
  if (next.primaries.size() != shards_.size())
    throw std::logic_error("a view of " + std::to_string(next.primaries.size())
                           + " shards for a worker of "
                           + std::to_string(shards_.size()));
  view_ = next;
  for (auto& one : shards_)
    one.serves = false;
  return on_timeout();
}

worker_reaction worker::push(std::uint32_t shard, const push_id& id,
                             std::uint64_t read_version, payload gradient) {
  auto& at = shards_.at(shard);
  const auto [kept, is_new] =
    at.pushes.try_emplace(id, kept_push{read_version, std::move(gradient)});
  if (!at.serves)
    return {};
  return {send_push{view_.primaries[shard],
                    shard,
                    {view_.view_id, id, read_version, training_},
                    kept->second.gradient}};
}

worker_reaction worker::pull(std::uint32_t shard, std::uint32_t replica,
                             std::uint64_t step,
                             std::vector<std::uint32_t> parts) {
  auto& at = shards_.at(shard);
  auto& wanted = at.pulls[replica];
  wanted = {view_.view_id, ++last_pull_,     replica,
            step,          std::move(parts), training_};
  if (!at.serves)
    return {};
  return {send_pull{view_.primaries[shard], shard, wanted}};
}

std::optional<read_in_place>
worker::read_in_place(std::uint32_t shard, std::uint32_t replica,
                      std::uint64_t step,
                      std::vector<std::uint32_t> parts) const {
  if (!shards_.at(shard).serves)
    return {};
  return parameter_server::read_in_place{
    view_.primaries[shard],
    shard,
    {view_.view_id, 0, replica, step, std::move(parts), training_}};
}

worker_reaction worker::contributed(std::uint32_t replica,
                                    std::uint64_t next_step) {
  worker_reaction out;
  contributed_[replica] = next_step;
  if (view_.view_id != 0)
    send_progress(out, replica);
  return out;
}

worker_reaction worker::on(std::uint32_t shard, const pushed& received) {
  auto* const at = find(shard);
  if (!at || received.training != training_)
    return {};
  if (received.result == push_result::stale_view)
    return {}; // sent again in the next view
  if (at->pushes.erase(received.id) == 0)
    return {}; // a repeated answer
  switch (received.result) {
    case push_result::accepted:
    case push_result::repeated:
      return {push_done{shard, received.id}};
    case push_result::decided:
      return {push_done{shard, received.id, true}};
    default:
      return {worker_error{shard, received.result, received.id}};
  }
}

worker_reaction worker::on(std::uint32_t shard, const pulled& received) {
  auto* const at = find(shard);
  if (!at || received.training != training_)
    return {};
  const auto wanted = at->pulls.find(received.replica);
  if (received.view_id != view_.view_id || wanted == at->pulls.end()
      || wanted->second.number != received.number
      || wanted->second.parts.size() != received.versions.size())
    return {}; // of an older pull
  const pull_done done{shard, received.replica, wanted->second.step,
                       received.next_step, received.versions};
  at->pulls.erase(wanted);
  return {done};
}

worker_reaction worker::on(std::uint32_t shard, const serving& received) {
  auto* const at = find(shard);
  if (!at)
    return {};
  worker_reaction out;
  if (view_.view_id == 0 || received.view_id != view_.view_id || at->serves)
    return out;
  at->serves = true;
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
  if (view_.view_id != 0)
    for (const auto& [replica, unused] : contributed_)
      send_progress(out, replica);
  return out;
}

worker::connection* worker::find(std::uint32_t shard) {
  return shard < shards_.size() ? &shards_[shard] : nullptr;
}

void worker::release(std::uint32_t replica) {
  contributed_.erase(replica);
  for (auto& one : shards_) {
    one.pulls.erase(replica);
    std::erase_if(one.pushes,
                  [&](const auto& x) { return x.first.replica == replica; });
  }
}

void worker::send_all(worker_reaction& out, std::uint32_t shard) const {
  const auto& at = shards_[shard];
  for (const auto& [id, kept] : at.pushes)
    out.push_back(send_push{view_.primaries[shard],
                            shard,
                            {view_.view_id, id, kept.read_version, training_},
                            kept.gradient});
  for (auto wanted : at.pulls) {
    wanted.second.view_id = view_.view_id;
    out.push_back(send_pull{view_.primaries[shard], shard, wanted.second});
  }
}

void worker::send_progress(worker_reaction& out, std::uint32_t replica) const {
  out.push_back(send_contributed{
    {view_.view_id, replica, contributed_.at(replica), training_}});
}

std::size_t worker::unacknowledged() const {
  std::size_t out = 0;
  for (const auto& one : shards_)
    out += one.pushes.size();
  return out;
}

} // namespace troupe::parameter_server
