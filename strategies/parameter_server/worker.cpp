#include "troupe/strategies/parameter_server/worker.hpp"

#include <utility>

namespace troupe::parameter_server {

worker::worker(std::uint64_t self, std::uint32_t shards, std::uint64_t training)
  : self_{self}, training_{training}, shards_(shards) {}

worker_reaction worker::on_view(std::uint32_t shard,
                                const shard_primary& next) {
  worker_reaction out;
  auto& at = shards_.at(shard);
  if (next.view_id <= at.view.view_id)
    return out;
  at.view = next;
  at.serves = false;
  send_again(out, shard);
  return out;
}

worker_reaction worker::push(std::uint32_t shard, const push_id& id,
                             std::uint64_t read_version,
                             const update_factors& factors, payload gradient) {
  auto& at = shards_.at(shard);
  const auto [kept, is_new] = at.pushes.try_emplace(
    id, kept_push{read_version, factors, std::move(gradient)});
  if (!at.serves)
    return {};
  return {send_push{at.view.primary,
                    shard,
                    {at.view.view_id, id, read_version, training_, factors},
                    kept->second.gradient}};
}

worker_reaction worker::pull(std::uint32_t shard, std::uint32_t replica,
                             std::uint64_t step,
                             std::vector<std::uint32_t> parts) {
  auto& at = shards_.at(shard);
  auto& wanted = at.pulls[replica];
  wanted = {at.view.view_id,  ++last_pull_, replica, step,
            std::move(parts), training_};
  if (!at.serves)
    return {};
  return {send_pull{at.view.primary, shard, wanted}};
}

std::optional<read_in_place>
worker::read_in_place(std::uint32_t shard, std::uint32_t replica,
                      std::uint64_t step,
                      std::vector<std::uint32_t> parts) const {
  const auto& at = shards_.at(shard);
  if (!at.serves)
    return {};
  return parameter_server::read_in_place{
    at.view.primary,
    shard,
    {at.view.view_id, 0, replica, step, std::move(parts), training_}};
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
  if (received.view_id != at->view.view_id || wanted == at->pulls.end()
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
  const auto view_id = at->view.view_id;
  if (view_id == 0 || received.view_id != view_id || at->serves)
    return out;
  at->serves = true;
  send_all(out, shard);
  return out;
}

worker_reaction worker::on_timeout() {
  worker_reaction out;
  for (std::uint32_t i = 0; i < shards_.size(); ++i)
    send_again(out, i);
  return out;
}

/// Sends what a shard has not answered.
void worker::send_again(worker_reaction& out, std::uint32_t shard) const {
  const auto& at = shards_[shard];
  if (at.serves)
    send_all(out, shard);
  else if (at.view.view_id != 0)
    out.push_back(
      send_accepted{at.view.primary, shard, {at.view.view_id, self_}});
}

worker::connection* worker::find(std::uint32_t shard) {
  return shard < shards_.size() ? &shards_[shard] : nullptr;
}

void worker::give_up(std::uint32_t shard, const push_id& id) {
  shards_.at(shard).pushes.erase(id);
}

void worker::release(std::uint32_t replica) {
  for (auto& one : shards_) {
    one.pulls.erase(replica);
    std::erase_if(one.pushes,
                  [&](const auto& x) { return x.first.replica == replica; });
  }
}

void worker::send_all(worker_reaction& out, std::uint32_t shard) const {
  const auto& at = shards_[shard];
  for (const auto& [id, kept] : at.pushes)
    out.push_back(send_push{
      at.view.primary,
      shard,
      {at.view.view_id, id, kept.read_version, training_, kept.factors},
      kept.gradient});
  for (auto wanted : at.pulls) {
    wanted.second.view_id = at.view.view_id;
    out.push_back(send_pull{at.view.primary, shard, wanted.second});
  }
}

std::size_t worker::unacknowledged() const {
  std::size_t out = 0;
  for (const auto& one : shards_)
    out += one.pushes.size();
  return out;
}

} // namespace troupe::parameter_server
