#include "troupe/strategies/membership/candidate.hpp"

#include "troupe/strategies/placement.hpp"

#include <utility>

namespace troupe::membership {

candidate::candidate(std::uint32_t tasks, const join_request& self)
  : tasks_{tasks}, self_{self} {}

void candidate::on_connected(std::uint32_t task, std::uint64_t incarnation) {
  connected_[task] = {incarnation, false};
}

void candidate::on_lost(std::uint32_t task) {
  const auto it = connected_.find(task);
  if (it == connected_.end())
    return;
  if (leader_ == it->second.incarnation)
    leader_.reset();
  connected_.erase(it);
}

reaction candidate::on(std::uint32_t task, const message& received) {
  reaction out;
  const auto sender = connected_.find(task);
  if (sender == connected_.end())
    return out;
  if (received.kind == message_kind::reject && phase_ != phase::failed)
    fail(out, ec::refused, received.text);
  if (received.kind == message_kind::leave)
    out.emplace_back(left{task});
  if (received.kind != message_kind::current_view || phase_ == phase::failed
      || !is_possible(received.view)
      || !received.view.contains(task, sender->second.incarnation))
    return out;
  sender->second.is_member = true;
  if (received.text == leads_job)
    leader_ = sender->second.incarnation;
  if (received.view.view_id > view_.view_id)
    view_ = received.view;
  start_if_connected(out);
  return out;
}

bool candidate::can_enter(const membership::view& next) const {
  return is_asking() && is_possible(next) && next.view_id >= view_.view_id
         && next.contains(self_.task, self_.incarnation);
}

/// Checks a view that a process sent. Its tasks must be those of the job, in
/// ascending order, and its members must host each replica in [0, R) once.
bool candidate::is_possible(const membership::view& current) const {
  if (current.view_id == 0 || current.members.empty())
    return false;
  std::vector<std::uint32_t> ids;
  for (std::size_t i = 0; i < current.members.size(); ++i) {
    const auto& one = current.members[i];
    if (one.task >= tasks_
        || (i > 0 && current.members[i - 1].task >= one.task))
      return false;
    ids.insert(ids.end(), one.replicas.begin(), one.replicas.end());
    if (ids.size() > max_replicas)
      return false;
  }
  std::ranges::sort(ids);
  for (std::uint32_t i = 0; i < ids.size(); ++i)
    if (ids[i] != i)
      return false;
  return !ids.empty();
}

void candidate::start_if_connected(reaction& out) {
  if (phase_ != phase::connecting)
    return;
  for (const auto& x : view_.members) {
    if (x.task == self_.task)
      continue; // the predecessor of this process, which the job has lost
    const auto it = connected_.find(x.task);
    if (it == connected_.end() || !it->second.is_member
        || it->second.incarnation != x.incarnation)
      return;
  }
  phase_ = phase::waiting;
  out.emplace_back(view_changed{view_});
  out.emplace_back(started{});
}

reaction candidate::on_timeout(const std::string& reason,
                               const std::string& refusal) {
  reaction out;
  if (phase_ != phase::connecting)
    return out;
  if (!refusal.empty())
    fail(out, ec::stalled,
         "its processes do not accept this one within the start timeout: "
           + refusal);
  else
    fail(out, ec::stalled,
         connected_.empty()
           ? "no process of the job answers"
               + (reason.empty() ? std::string{} : ": " + reason)
           : "it could not connect to all processes of the job"
               + (reason.empty() ? std::string{} : ": " + reason));
  return out;
}

void candidate::fail(reaction& out, ec code, const std::string& reason) {
  phase_ = phase::failed;
  out.emplace_back(
    failed{{.kind = failure_kind::unspecified,
            .code = code,
            .cause = "a running job cannot be joined: " + reason}});
}

reaction candidate::ask() {
  if (phase_ == phase::waiting)
    phase_ = phase::asking;
  return repeat();
}

reaction candidate::repeat() const {
  reaction out;
  if (phase_ == phase::asking)
    for (const auto& [task, x] : connected_)
      out.emplace_back(send{task, {message_kind::join, {}, {}}});
  return out;
}

reaction candidate::leave() {
  reaction out;
  if (std::exchange(leaving_, true))
    return out;
  for (const auto& [task, x] : connected_)
    out.emplace_back(send{task, {message_kind::leave, {}, {}}});
  out.emplace_back(ended{});
  return out;
}

} // namespace troupe::membership
