#include "troupe/strategies/parameter_server/copy_views.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace troupe::parameter_server {

views_reaction copy_views::start(const std::vector<std::uint64_t>& servers) {
  servers_ = {servers.begin(), servers.end()};
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    shard_view first{1, 1, 0, servers[s % servers.size()], {}, {}};
    for (std::size_t i = 1;
         i < std::min<std::size_t>(max_copies_, servers.size()); ++i)
      first.backups.push_back(servers[(s + i) % servers.size()]);
    begin_view(shards_[s], std::move(first));
  }
  return {true, false, {}};
}

/// Number of shards of which a server has a copy.
std::uint64_t copy_views::copies_of(std::uint64_t server) const {
  return static_cast<std::uint64_t>(
    std::ranges::count_if(shards_, [&](const shard& x) {
      return x.view.primary == server
             || std::ranges::count(x.view.backups, server) > 0;
    }));
}

void copy_views::begin_view(shard& of, shard_view next) {
  std::ranges::sort(next.backups);
  of.view = std::move(next);
  of.positions.clear();
}

/// Adds backups, as long as there are servers without a copy.
void copy_views::fill(shard_view& view) const {
  while (view.backups.size() + 1 < max_copies_) {
    std::optional<std::uint64_t> best;
    for (const auto server : servers_)
      if (server != view.primary
          && std::ranges::count(view.backups, server) == 0
          && (!best || copies_of(server) < copies_of(*best)))
        best = server;
    if (!best)
      return;
    view.backups.push_back(*best);
  }
}

/// Makes the next view of a shard if its copies must change.
void copy_views::update(std::uint32_t index, views_reaction& out) {
  auto& one = shards_[index];
  if (one.is_lost)
    return;
  if (!lives(one.view.primary)) {
    if (!std::exchange(one.is_vacant, true)) {
      one.first_poll = ++poll_;
      out.asks_positions = true;
    }
    return promote(index, out);
  }
  auto next = one.view;
  std::erase_if(next.backups, [&](std::uint64_t x) { return !lives(x); });
  fill(next);
  std::ranges::sort(next.backups);
  if (next.backups == one.view.backups)
    return;
  ++next.view_id;
  begin_view(one, std::move(next));
  out.views_changed = true;
}

/// Makes a backup the primary, if one has said after the loss that it can be.
void copy_views::promote(std::uint32_t index, views_reaction& out) {
  auto& one = shards_[index];
  const std::pair<const std::uint64_t, copy_position>* best = nullptr;
  bool has_answers = true;
  for (const auto server : one.view.backups) {
    if (!lives(server))
      continue;
    const auto at = one.positions.find(server);
    if (at == one.positions.end() || one.answered.at(server) < one.first_poll)
      has_answers = false;
    else if (at->second.is_in_sync
             && (!best || at->second.sequence > best->second.sequence))
      best = &*at;
  }
  if (!best) {
    one.is_lost = has_answers;
    if (one.is_lost)
      out.lost_shards.push_back(index);
    return;
  }
  auto next = one.view;
  ++next.view_id;
  next.previous_term = std::exchange(next.term, next.view_id);
  next.primary = best->first;
  std::erase_if(next.backups, [&](std::uint64_t x) {
    return !lives(x) || x == next.primary;
  });
  fill(next);
  one.is_vacant = false;
  begin_view(one, std::move(next));
  out.views_changed = true;
}

views_reaction copy_views::on_server(std::uint64_t server) {
  views_reaction out;
  servers_.insert(server);
  for (std::uint32_t i = 0; i < shards_.size(); ++i)
    update(i, out);
  return out;
}

views_reaction copy_views::on_server_lost(std::uint64_t server) {
  views_reaction out;
  if (servers_.erase(server) > 0)
    for (std::uint32_t i = 0; i < shards_.size(); ++i)
      update(i, out);
  return out;
}

views_reaction
copy_views::on_positions(std::uint64_t server, std::uint64_t poll,
                         const std::vector<copy_position>& positions) {
  views_reaction out;
  if (!lives(server) || positions.size() != shards_.size() || poll > poll_)
    return out;
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    auto& one = shards_[i];
    if (positions[i].view_id != one.view.view_id
        || positions[i].term != one.view.term)
      continue;
    one.positions[server] = positions[i];
    auto& last = one.answered[server];
    last = std::max(last, poll);
    if (one.is_vacant && !one.is_lost)
      promote(i, out);
  }
  return out;
}

views_reaction copy_views::on_timeout() {
  views_reaction out;
  if (is_settled())
    return out;
  ++poll_;
  out.asks_positions = true;
  return out;
}

bool copy_views::has_vacancy() const {
  return std::ranges::any_of(
    shards_, [](const shard& x) { return x.is_vacant && !x.is_lost; });
}

std::vector<shard_view> copy_views::views() const {
  std::vector<shard_view> out;
  for (const auto& one : shards_)
    out.push_back(one.view);
  return out;
}

/// Number of copies of a shard that live and have said that they are in sync.
std::uint32_t copy_views::in_sync_of(const shard& x) const {
  const auto is_in_sync = [&](std::uint64_t server) {
    const auto found = x.positions.find(server);
    return lives(server) && found != x.positions.end()
           && found->second.is_in_sync;
  };
  return static_cast<std::uint32_t>(
    (is_in_sync(x.view.primary) ? 1 : 0)
    + std::ranges::count_if(x.view.backups, is_in_sync));
}

bool copy_views::is_settled() const {
  const auto copies = std::min<std::size_t>(max_copies_, servers_.size());
  return std::ranges::all_of(shards_, [&](const shard& x) {
    return !x.is_vacant && !x.is_lost && x.view.backups.size() + 1 == copies
           && in_sync_of(x) == copies;
  });
}

std::vector<std::uint32_t> copy_views::in_sync() const {
  std::vector<std::uint32_t> out;
  for (const auto& one : shards_)
    out.push_back(one.is_lost ? 0 : in_sync_of(one));
  return out;
}

} // namespace troupe::parameter_server
