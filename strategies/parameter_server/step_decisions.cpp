#include "troupe/strategies/parameter_server/step_decisions.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::parameter_server {

step_decisions::step_decisions(std::uint32_t shards, std::uint32_t replicas,
                               std::uint32_t backup_workers,
                               std::uint64_t training, std::uint64_t chief)
  : replicas_{replicas},
    required_{replicas - backup_workers},
    training_{training},
    chief_{chief},
    views_(shards) {
  if (shards == 0 || backup_workers >= replicas || chief == 0)
    throw std::logic_error("decisions on steps of " + std::to_string(replicas)
                           + " replicas, " + std::to_string(backup_workers)
                           + " backup workers and " + std::to_string(shards)
                           + " shards by chief " + std::to_string(chief));
  for (std::uint32_t i = 0; i < shards; ++i)
    awaited_.insert(i);
}

decision_reaction step_decisions::on_view(std::uint32_t shard,
                                          const shard_primary& next) {
  decision_reaction out;
  auto& view = views_.at(shard);
  if (next.view_id <= view.view_id)
    return out;
  view = next;
  if (awaited_.contains(shard))
    send_to(out, shard);
  return out;
}

/// True if there is such a shard, and this process has entered this view of it.
bool step_decisions::is_of_view(std::uint32_t shard,
                                std::uint64_t view_id) const {
  return shard < views_.size() && views_[shard].view_id == view_id;
}

decision_reaction step_decisions::on(std::uint32_t shard,
                                     const last_decision& received) {
  decision_reaction out;
  if (!queries_ || !is_of_view(shard, received.view_id)
      || received.training != training_ || received.chief != chief_
      || supersede(out, received.last_chief) || awaited_.erase(shard) == 0)
    return out;
  for (const auto& found : received.decided) {
    if (found.training != training_)
      return {protocol_error{"shard " + std::to_string(shard)
                             + " has a decision of another training"}};
    if (last_ && last_->step == found.step
        && last_->contributors != found.contributors)
      out.emplace_back(protocol_error{
        "shard " + std::to_string(shard) + " has another decision on step "
        + std::to_string(found.step) + " than the shards before it"});
    if (!last_ || last_->step < found.step)
      last_ = found;
  }
  if (!awaited_.empty())
    return out;
  queries_ = false;
  if (last_)
    send_to_all(out);
  else
    choose_next(out);
  return out;
}

/// A shard has answered with the last chief that has asked it. A later one ends
/// this one.
/// @returns true: it has ended.
bool step_decisions::supersede(decision_reaction& out,
                               std::uint64_t last_chief) {
  if (last_chief > chief_ && !std::exchange(is_superseded_, true)) {
    out.emplace_back(chief_superseded{});
  }
  return is_superseded_;
}

decision_reaction step_decisions::on(const contributed& received) {
  decision_reaction out;
  if (received.training != training_)
    return out;
  if (received.replica >= replicas_)
    return {protocol_error{"contributions of replica "
                           + std::to_string(received.replica)
                           + " of a job with " + std::to_string(replicas_)}};
  const auto before =
    std::ranges::find(contributed_, received.replica, &contributed::replica);
  if (before != contributed_.end()) {
    if (received.next_step <= before->next_step)
      return out;
    contributed_.erase(before);
  }
  contributed_.push_back(received);
  choose_next(out);
  return out;
}

decision_reaction step_decisions::on(std::uint32_t shard,
                                     const decided& received) {
  decision_reaction out;
  if (queries_ || !is_of_view(shard, received.view_id)
      || received.training != training_ || received.chief != chief_
      || supersede(out, received.last_chief) || !last_
      || received.step != last_->step || awaited_.erase(shard) == 0)
    return out;
  choose_next(out);
  return out;
}

/// Chooses the contributors to the next step if all shards have the last
/// decision, and enough replicas have contributed.
void step_decisions::choose_next(decision_reaction& out) {
  if (queries_ || is_superseded_ || next_ || !awaited_.empty())
    return;
  decision next{0, next_step(), {}, training_, chief_};
  for (const auto& one : contributed_)
    if (one.next_step > next.step && next.contributors.size() < required_)
      next.contributors.push_back(one.replica);
  if (next.contributors.size() < required_)
    return;
  std::ranges::sort(next.contributors);
  out.emplace_back(ask_factors{next.step, next.contributors});
  next_ = std::move(next);
}

decision_reaction step_decisions::decide(std::uint64_t step,
                                         const update_factors& factors) {
  decision_reaction out;
  if (!next_ || next_->step != step || is_superseded_)
    return out;
  last_ = std::move(*std::exchange(next_, {}));
  last_->factors = factors;
  send_to_all(out);
  return out;
}

/// Sends the last decision to all shards.
void step_decisions::send_to_all(decision_reaction& out) {
  for (std::uint32_t i = 0; i < views_.size(); ++i) {
    awaited_.insert(i);
    send_to(out, i);
  }
}

/// Sends the query or the last decision to a shard.
void step_decisions::send_to(decision_reaction& out,
                             std::uint32_t shard) const {
  const auto& [view_id, primary] = views_[shard];
  if (view_id == 0 || is_superseded_)
    return; // it is sent when there is a view
  if (queries_)
    out.emplace_back(
      send_decision_query{primary, shard, {view_id, training_, chief_}});
  else
    out.emplace_back(send_decision{primary,
                                   shard,
                                   {view_id, last_->step, last_->contributors,
                                    training_, chief_, last_->factors}});
}

decision_reaction step_decisions::on_timeout() {
  decision_reaction out;
  for (const auto shard : awaited_)
    send_to(out, shard);
  return out;
}

} // namespace troupe::parameter_server
