#include "troupe/strategies/membership/participant.hpp"

#include "troupe/strategies/placement.hpp"

#include <set>
#include <utility>

namespace troupe::membership {

participant::participant(std::uint32_t tasks, const join_request& self)
  : tasks_{tasks}, self_{self} {}

participant::participant(std::uint32_t tasks, const join_request& self,
                         const membership::view& joined,
                         std::optional<std::uint64_t> leader)
  : tasks_{tasks},
    self_{self},
    leader_{leader},
    view_{joined},
    phase_{phase::running} {}

bool participant::is_starting() const {
  return phase_ != phase::running && phase_ != phase::failed;
}

// -- the way to the leader ----------------------------------------------------

reaction participant::on_connected(std::uint64_t leader_incarnation) {
  if (phase_ == phase::dialing) {
    phase_ = phase::joining;
    leader_ = leader_incarnation;
  }
  return {};
}

reaction participant::on_unreachable(ec code, const std::string& reason) {
  reaction out;
  if (phase_ == phase::dialing)
    fail(out, {.kind = failure_kind::leader_unreachable,
               .code = code,
               .cause = reason});
  return out;
}

reaction participant::on_rejected(const std::string& reason) {
  reaction out;
  if (phase_ == phase::dialing || phase_ == phase::joining)
    fail(out, {.kind = failure_kind::join_rejected,
               .code = ec::refused,
               .cause = reason});
  return out;
}

// -- messages -----------------------------------------------------------------

reaction participant::on(std::uint64_t incarnation, const message& received) {
  reaction out;
  if (incarnation != leader_) {
    const auto sender =
      std::ranges::find(view_.members, incarnation, &member::incarnation);
    if (sender != view_.members.end() && received.kind == message_kind::leave)
      out.emplace_back(left{sender->task});
    return out;
  }
  switch (received.kind) {
    case message_kind::view:
      on_view(out, received.view);
      break;
    case message_kind::start:
      if (phase_ == phase::ready && received.view.view_id == view_.view_id) {
        phase_ = phase::running;
        out.emplace_back(started{});
      }
      break;
    case message_kind::abort:
      if (is_starting())
        fail(out, {.kind = failure_kind::unspecified,
                   .code = ec::stalled,
                   .cause = received.text});
      break;
    case message_kind::reject:
      return on_rejected(received.text);
    case message_kind::shutdown:
      shut_down_ = true;
      out.emplace_back(job_ends{});
      out.emplace_back(send{0, {message_kind::leave, {}, {}}});
      if (is_starting())
        fail(out, {.kind = failure_kind::process_lost_in_start,
                   .code = ec::peer_lost,
                   .processes = {0}});
      break;
    case message_kind::leave_ack:
      out.emplace_back(left{0});
      if (leaving_)
        out.emplace_back(ended{});
      break;
    case message_kind::leave: // the job goes on without the leader
      if (phase_ != phase::running)
        break;
      out.emplace_back(left{0});
      leader_.reset();
      if (leaving_)
        out.emplace_back(ended{});
      break;
    case message_kind::ready:
      break; // only participants send it
    case message_kind::current_view:
    case message_kind::join:
      break; // of candidates
  }
  return out;
}

void participant::on_view(reaction& out, const membership::view& next) {
  if (phase_ != phase::joining)
    return;
  if (!is_possible(next))
    return fail(out,
                {.kind = failure_kind::malformed_view, .code = ec::protocol});
  phase_ = phase::connecting;
  view_ = next;
  out.emplace_back(view_changed{view_});
}

/// Checks the view that the leader sent: every task of the job, ascending, and
/// among them this process and the leader with their incarnations. Together
/// they host the replicas [0, R), each once. No two have one incarnation.
bool participant::is_possible(const membership::view& next) const {
  const auto ascending = [](const member& a, const member& b) {
    return a.task >= b.task;
  };
  if (next.view_id == 0 || !next.contains(self_.task, self_.incarnation)
      || !next.contains(0, *leader_) || next.members.back().task >= tasks_
      || std::ranges::adjacent_find(next.members, ascending)
           != next.members.end())
    return false;
  if (next.members.size() != tasks_)
    return false;
  const auto unreachable = [](const member& x) {
    return x.host.empty() || x.port == 0;
  };
  if (std::ranges::any_of(next.members, unreachable))
    return false;
  std::vector<std::uint32_t> ids;
  for (const auto& x : next.members)
    ids.insert(ids.end(), x.replicas.begin(), x.replicas.end());
  std::ranges::sort(ids);
  for (std::uint32_t i = 0; i < ids.size(); ++i)
    if (ids[i] != i)
      return false;
  std::set<std::uint64_t> incarnations;
  for (const auto& x : next.members)
    if (!incarnations.insert(x.incarnation).second)
      return false;
  return !ids.empty() && ids.size() <= max_replicas
         && next.find(self_.task)->replicas.size() == self_.replicas;
}

reaction participant::on_lost(std::uint64_t incarnation, ec code,
                              const std::string& reason) {
  reaction out;
  if (incarnation != leader_)
    return out;
  leader_.reset();
  if (is_starting())
    fail(out, {.kind = failure_kind::process_lost_in_start,
               .code = code,
               .processes = {0},
               .cause = reason});
  if (leaving_)
    out.emplace_back(ended{});
  return out;
}

reaction participant::on_reconnected(std::uint32_t task,
                                     std::uint64_t incarnation) {
  reaction out;
  if (task == 0) // it may have been lost in between
    leader_ = incarnation;
  const bool answers = shut_down_ && task == 0;
  if (answers || (leaving_ && !shut_down_))
    out.emplace_back(send{task, {message_kind::leave, {}, {}}});
  return out;
}

reaction participant::on_ready() {
  if (phase_ != phase::connecting)
    return {};
  phase_ = phase::ready;
  return {send{0, {message_kind::ready, {}, {view_.view_id, {}}}}};
}

// -- failures -----------------------------------------------------------------

reaction participant::on_timeout() {
  reaction out;
  if (phase_ == phase::dialing)
    fail(out,
         {.kind = failure_kind::leader_unreachable, .code = ec::unreachable});
  if (phase_ == phase::joining)
    fail(out, {.kind = failure_kind::view_missing, .code = ec::stalled});
  if (phase_ == phase::connecting)
    fail(out, {.kind = failure_kind::lanes_not_open,
               .code = ec::stalled,
               .processes = {self_.task}});
  if (phase_ == phase::ready)
    fail(out, {.kind = failure_kind::start_missing, .code = ec::stalled});
  return out;
}

reaction participant::on_abort(ec code, const std::string& reason) {
  reaction out;
  if (is_starting())
    fail(out,
         {.kind = failure_kind::unspecified, .code = code, .cause = reason});
  return out;
}

void participant::fail(reaction& out, failure_report why) {
  const bool connected = leader_.has_value();
  phase_ = phase::failed;
  failed effect{std::move(why)};
  if (connected)
    effect.notify.push_back(0);
  out.emplace_back(std::move(effect));
}

reaction participant::leave() {
  if (std::exchange(leaving_, true))
    return {};
  reaction out;
  const message leaves{message_kind::leave, {}, {}};
  for (const auto& x : view_.members)
    if (x.incarnation != leader_ && x.task != self_.task && !shut_down_)
      out.emplace_back(send{x.task, leaves});
  if (leader_ && !shut_down_)
    out.emplace_back(send{0, leaves});
  else
    out.emplace_back(ended{});
  return out;
}

} // namespace troupe::membership
