#include "troupe/actors/membership/elastic_group/unopened_lanes.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

unopened_lanes::unopened_lanes(const membership::view& first,
                               std::uint64_t self, bool joins)
  : self_{self} {
  for (const auto& x : first.members)
    joined_[x.incarnation] = joins ? 0 : first.view_id;
}

/// Members of which this process hears in the view in which it joins have
/// joined before.
void unopened_lanes::note_members(const membership::view& of) {
  const bool is_joining = !joined_.contains(self_);
  std::map<std::uint64_t, std::uint64_t> now;
  for (const auto& x : of.members) {
    const auto before = joined_.find(x.incarnation);
    now[x.incarnation] = before != joined_.end()                ? before->second
                         : is_joining && x.incarnation != self_ ? 0
                                                                : of.view_id;
  }
  joined_ = std::move(now);
}

std::vector<unopened_lanes::member>
unopened_lanes::on_failure(std::chrono::milliseconds now,
                           const membership::view& of,
                           const std::vector<std::uint32_t>& tasks) {
  note_members(of);
  std::vector<std::uint64_t> members;
  for (const auto& x : of.members)
    members.push_back(x.incarnation);
  if (std::exchange(members_, members) != members)
    failures_.clear(); // the loss or the join of another one may be the reason
  std::vector<member> out;
  std::map<std::uint64_t, failures> next;
  for (const auto task : tasks) {
    const auto* const x = of.find(task);
    if (!x || x->incarnation == self_)
      continue;
    auto& one = next[x->incarnation] = failures_[x->incarnation];
    if (one.count++ == 0)
      one.first = now;
    if (one.count < max_failures
        && (one.count < min_failures || now - one.first < min_time))
      continue;
    const auto own = joined_[self_], other = joined_[x->incarnation];
    out.push_back({task, x->incarnation, other > own, other < own});
  }
  failures_ = std::move(next);
  return out;
}

void unopened_lanes::on_entered(const membership::view& next) {
  note_members(next);
  failures_.clear();
  members_.clear();
}

} // namespace troupe
