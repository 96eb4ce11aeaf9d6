#include "troupe/strategies/membership/reassignment.hpp"

#include <utility>

namespace troupe::membership {

namespace {

/// Returns true if `a` replicas for the capacity `of_a` are more than `b`
/// replicas for the capacity `of_b`.
bool is_more(std::size_t a, std::uint32_t of_a, std::size_t b,
             std::uint32_t of_b) {
  return std::uint64_t{a} * of_b > std::uint64_t{b} * of_a;
}

/// Returns the member that takes one more replica. Null: none hosts replicas.
member* least_loaded(std::vector<member>& members) {
  member* least = nullptr;
  for (auto& x : members)
    if (x.capacity > 0
        && (!least
            || is_more(least->replicas.size() + 1, least->capacity,
                       x.replicas.size() + 1, x.capacity)))
      least = &x;
  return least;
}

/// Returns the member that gives a replica away. Null: none has one.
member* most_loaded(std::vector<member>& members) {
  member* most = nullptr;
  for (auto& x : members)
    if (!x.replicas.empty()
        && (!most
            || is_more(x.replicas.size(), x.capacity, most->replicas.size(),
                       most->capacity)))
      most = &x;
  return most;
}

void place_orphans(const view& before, std::vector<member>& members) {
  std::vector<std::uint32_t> orphans;
  for (const auto& old : before.members)
    if (std::ranges::find(members, old.incarnation, &member::incarnation)
        == members.end())
      orphans.insert(orphans.end(), old.replicas.begin(), old.replicas.end());
  std::ranges::sort(orphans);
  for (const auto replica : orphans)
    least_loaded(members)->replicas.push_back(replica);
}

void take_share(std::vector<member>& members, std::uint32_t task) {
  auto& taker = *std::ranges::find(members, task, &member::task);
  for (;;) {
    auto* const giver = most_loaded(members);
    if (!giver || taker.capacity == 0
        || !is_more(giver->replicas.size(), giver->capacity,
                    taker.replicas.size() + 1, taker.capacity))
      return;
    const auto highest = std::ranges::max_element(giver->replicas);
    taker.replicas.push_back(*highest);
    giver->replicas.erase(highest);
  }
}

} // namespace

std::vector<member> reassigned(const view& before,
                               const std::vector<member>& stay,
                               const std::vector<member>& joined) {
  auto members = stay;
  if (!least_loaded(members))
    return {};
  auto newcomers = joined;
  std::ranges::sort(newcomers, {}, &member::task);
  for (auto& x : newcomers) {
    x.replicas.clear();
    members.push_back(x);
  }
  place_orphans(before, members);
  for (const auto& x : newcomers)
    take_share(members, x.task);
  for (auto& x : members)
    std::ranges::sort(x.replicas);
  std::ranges::sort(members, {}, &member::task);
  return members;
}

} // namespace troupe::membership
