#include "troupe/strategies/membership/leader.hpp"

#include "troupe/strategies/placement.hpp"

#include <utility>

namespace troupe::membership {

leader::leader(std::uint32_t tasks, const join_request& self)
  : config_{self.config}, processes_(tasks) {
  processes_.at(0) = joined_process{self};
}

// -- admission ----------------------------------------------------------------

reaction leader::begin() {
  reaction out;
  form_view_if_complete(out);
  return out;
}

reaction leader::on(const join_request& request) {
  reaction out;
  if (auto why = check(request)) {
    out.emplace_back(rejected{*std::move(why)});
    return out;
  }
  processes_[request.task] = joined_process{request};
  out.emplace_back(admitted{request.task});
  form_view_if_complete(out);
  return out;
}

std::optional<rejection> leader::check(const join_request& request) const {
  using enum rejection::kind;
  const auto task = request.task;
  if (task >= processes_.size())
    return rejection{unknown_task, task, {}, {}};
  if (!is_gathering())
    return rejection{closed, task, {}, {}};
  const auto has_same_incarnation = [&](const auto& x) {
    return x && x->request.incarnation == request.incarnation;
  };
  if (processes_[task] || std::ranges::any_of(processes_, has_same_incarnation))
    return rejection{taken, task, {}, {}};
  if (auto why = difference(task, request.config, config_))
    return why;
  std::uint64_t sum = request.replicas;
  for (const auto& x : processes_)
    sum += x ? x->request.replicas : 0;
  if (sum > max_replicas)
    return rejection{replicas, task, std::to_string(request.replicas),
                     std::to_string(max_replicas)};
  return {};
}

/// If every task is taken, the replicas get ids in the order of the tasks.
void leader::form_view_if_complete(reaction& out) {
  if (!missing().empty())
    return;
  if (std::ranges::all_of(processes_,
                          [](const auto& x) { return !x->request.replicas; }))
    return fail(out, {.kind = failure_kind::no_replica, .code = ec::invalid});
  phase_ = phase::connecting;
  view_.view_id = 1;
  std::uint32_t next_replica = 0;
  for (const auto& x : processes_) {
    const auto& [task, incarnation, host, port, replicas, config] = x->request;
    member one{task, incarnation, host, port, {}, replicas};
    for (std::uint32_t i = 0; i < replicas; ++i)
      one.replicas.push_back(next_replica++);
    view_.members.push_back(std::move(one));
  }
  out.emplace_back(view_changed{view_});
  send_to_all(out, {message_kind::view, {}, view_});
}

// -- messages -----------------------------------------------------------------

leader::joined_process* leader::find(std::uint32_t task,
                                     std::uint64_t incarnation) {
  const bool current = task > 0 && task < processes_.size() && processes_[task]
                       && processes_[task]->request.incarnation == incarnation;
  return current ? &*processes_[task] : nullptr;
}

reaction leader::on(std::uint32_t task, std::uint64_t incarnation,
                    const message& received) {
  reaction out;
  auto* const sender = find(task, incarnation);
  if (!sender)
    return out;
  switch (received.kind) {
    case message_kind::ready:
      sender->ready |=
        phase_ == phase::connecting && received.view.view_id == view_.view_id;
      start_if_ready(out);
      break;
    case message_kind::abort:
      // While tasks are missing, another process can take the sender's task.
      if (phase_ == phase::connecting)
        fail(out, {.kind = failure_kind::unspecified,
                   .code = ec::stalled,
                   .cause = received.text});
      break;
    case message_kind::leave:
      out.emplace_back(send{task, {message_kind::leave_ack, {}, {}}});
      out.emplace_back(left{task});
      if (phase_ == phase::connecting)
        fail(out, {.kind = failure_kind::process_lost_in_start,
                   .code = ec::peer_lost,
                   .processes = {task}});
      remove(out, task);
      break;
    case message_kind::view:
    case message_kind::start:
    case message_kind::leave_ack:
    case message_kind::shutdown:
    case message_kind::reject:
      break; // only the leader sends these
    case message_kind::current_view:
    case message_kind::join:
      break; // of candidates
  }
  return out;
}

reaction leader::on_lost(std::uint32_t task, std::uint64_t incarnation, ec code,
                         const std::string& reason) {
  reaction out;
  if (!find(task, incarnation))
    return out;
  if (phase_ == phase::connecting)
    fail(out, {.kind = failure_kind::process_lost_in_start,
               .code = code,
               .processes = {task},
               .cause = reason});
  remove(out, task);
  return out;
}

reaction leader::on_reconnected(std::uint32_t task) const {
  reaction out;
  if (leaving_)
    out.emplace_back(send{
      task,
      {job_goes_on_ ? message_kind::leave : message_kind::shutdown, {}, {}}});
  return out;
}

void leader::on_installed(const membership::view& next) {
  for (const auto& x : next.members)
    if (x.task > 0 && !find(x.task, x.incarnation))
      processes_[x.task] = joined_process{
        {x.task, x.incarnation, x.host, x.port, x.capacity, config_}, true};
}

reaction leader::on_ready() {
  reaction out;
  processes_[0]->ready = true;
  start_if_ready(out);
  return out;
}

void leader::start_if_ready(reaction& out) {
  const auto ready = [](const auto& x) { return x && x->ready; };
  if (phase_ != phase::connecting || !std::ranges::all_of(processes_, ready))
    return;
  phase_ = phase::running;
  send_to_all(out, {message_kind::start, {}, {view_.view_id, {}}});
  out.emplace_back(started{});
}

// -- failures -----------------------------------------------------------------

reaction leader::on_timeout() {
  reaction out;
  if (phase_ == phase::gathering && !leaving_)
    fail(out, {.kind = failure_kind::start_not_joined,
               .code = ec::stalled,
               .processes = missing()});
  if (phase_ == phase::connecting) {
    std::vector<std::uint32_t> late;
    for (std::uint32_t task = 0; task < processes_.size(); ++task)
      if (!processes_[task]->ready)
        late.push_back(task);
    fail(out, {.kind = failure_kind::lanes_not_open,
               .code = ec::stalled,
               .processes = late});
  }
  return out;
}

reaction leader::on_abort(ec code, const std::string& reason) {
  reaction out;
  if (phase_ == phase::gathering || phase_ == phase::connecting)
    fail(out,
         {.kind = failure_kind::unspecified, .code = code, .cause = reason});
  return out;
}

void leader::fail(reaction& out, failure_report why) {
  phase_ = phase::failed;
  auto notify = participants();
  if (why.kind == failure_kind::process_lost_in_start)
    std::erase(notify, why.processes.front());
  out.emplace_back(failed{std::move(why), std::move(notify)});
}

// -- the end ------------------------------------------------------------------

/// Frees the task of a process that has left or was lost.
void leader::remove(reaction& out, std::uint32_t task) {
  processes_[task].reset();
  if (leaving_ && participants().empty())
    out.emplace_back(ended{});
}

reaction leader::leave() {
  reaction out;
  if (std::exchange(leaving_, true))
    return out;
  send_to_all(out, {message_kind::shutdown, {}, {}});
  if (participants().empty())
    out.emplace_back(ended{});
  return out;
}

reaction leader::leave_running_job() {
  reaction out;
  if (std::exchange(leaving_, true))
    return out;
  job_goes_on_ = true;
  send_to_all(out, {message_kind::leave, {}, {}});
  out.emplace_back(ended{});
  return out;
}

// -- queries ------------------------------------------------------------------

std::vector<std::uint32_t> leader::missing() const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t task = 0; task < processes_.size(); ++task)
    if (!processes_[task])
      out.push_back(task);
  return out;
}

std::vector<std::uint32_t> leader::participants() const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t task = 1; task < processes_.size(); ++task)
    if (processes_[task])
      out.push_back(task);
  return out;
}

void leader::send_to_all(reaction& out, const message& what) const {
  for (const auto task : participants())
    out.emplace_back(send{task, what});
}

} // namespace troupe::membership
