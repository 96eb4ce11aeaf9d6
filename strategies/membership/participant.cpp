#include "troupe/strategies/membership/participant.hpp"

#include "troupe/strategies/placement.hpp"

#include <utility>

namespace troupe::membership {

participant::participant(std::uint32_t tasks, const join_request& self)
  : tasks_{tasks}, self_{self} {}

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
  if (incarnation != leader_)
    return out;
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
    case message_kind::ready:
    case message_kind::leave:
      break; // only participants send these
  }
  return out;
}

void participant::on_view(reaction& out, const membership::view& next) {
  const bool first = phase_ == phase::joining;
  if (next.view_id <= view_.view_id || phase_ == phase::failed)
    return;
  if (!is_possible(next)) {
    if (first)
      fail(out, {.kind = failure_kind::malformed_view, .code = ec::protocol});
    return;
  }
  if (first)
    phase_ = phase::connecting;
  view_ = next;
  out.emplace_back(view_changed{view_});
}

/// Checks a view that the leader sent: ascending tasks of the job, each replica
/// once, this process and the leader with their incarnations. All processes of
/// the first view host the replicas [0, R) together; every later one has
/// processes of the view before it.
bool participant::is_possible(const membership::view& next) const {
  const auto ascending = [](const member& a, const member& b) {
    return a.task >= b.task;
  };
  const auto known = [this](const member& x) {
    return std::ranges::find(view_.members, x) != view_.members.end();
  };
  if (!next.contains(self_.task, self_.incarnation)
      || !next.contains(0, *leader_) || next.members.back().task >= tasks_
      || std::ranges::adjacent_find(next.members, ascending)
           != next.members.end())
    return false;
  if (view_.view_id > 0)
    return std::ranges::all_of(next.members, known);
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
  if (!leader_ || shut_down_)
    return {ended{}};
  return {send{0, {message_kind::leave, {}, {}}}};
}

} // namespace troupe::membership
