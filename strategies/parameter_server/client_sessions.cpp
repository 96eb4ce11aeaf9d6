#include "troupe/strategies/parameter_server/client_sessions.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace troupe::parameter_server {

client_sessions::state client_sessions::find(const command& x) const {
  const auto number = x.id.number;
  if (x.answered_below > number)
    return state::forgotten;
  const auto found = clients_.find(x.id.client);
  if (found == clients_.end() && x.answered_below > 0)
    return state::forgotten;
  auto below = x.answered_below;
  if (found != clients_.end()) {
    if (number < found->second.answered_below)
      return state::forgotten;
    if (found->second.done.contains(number))
      return state::done;
    below = std::max(below, found->second.answered_below);
  }
  return number - below < limits_.max_open_commands ? state::is_new
                                                    : state::ahead;
}

std::vector<std::uint64_t> client_sessions::add(const command& x,
                                                std::uint64_t sequence) {
  auto& one = clients_[x.id.client];
  one.answered_below = std::max(one.answered_below, x.answered_below);
  one.last_record = sequence;
  one.done.erase(one.done.begin(), one.done.lower_bound(one.answered_below));
  one.done.insert(x.id.number);
  std::vector<std::uint64_t> forgotten;
  if (clients_.size() > limits_.max_clients) {
    const auto oldest = std::ranges::min_element(
      clients_, {}, [](const auto& at) { return at.second.last_record; });
    forgotten.push_back(oldest->first);
    clients_.erase(oldest);
  }
  return forgotten;
}

std::vector<client_session> client_sessions::save() const {
  std::vector<client_session> out;
  for (const auto& [client, one] : clients_)
    out.push_back({client,
                   one.answered_below,
                   one.last_record,
                   {one.done.begin(), one.done.end()}});
  return out;
}

bool client_sessions::restore(const std::vector<client_session>& from,
                              std::uint64_t sequence) {
  if (from.size() > limits_.max_clients)
    return false;
  std::map<std::uint64_t, session> made;
  for (const auto& one : from) {
    const auto& done = one.done;
    if (one.last_record > sequence || one.last_record == 0
        || (!made.empty() && made.rbegin()->first >= one.client)
        || done.size() > limits_.max_open_commands
        || std::ranges::adjacent_find(done, std::greater_equal{}) != done.end()
        || (!done.empty() && done.front() < one.answered_below))
      return false;
    made.emplace_hint(
      made.end(), one.client,
      session{one.answered_below, one.last_record, {done.begin(), done.end()}});
  }
  clients_ = std::move(made);
  return true;
}

} // namespace troupe::parameter_server
