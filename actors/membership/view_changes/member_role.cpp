#include "troupe/actors/membership/view_changes/member_role.hpp"

#include "troupe/actors/membership/view_changes/view_change_text.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace troupe {

namespace {

using std::chrono::milliseconds;

/// Time after which a run that goes on is ended for a view change. Before that,
/// the loss of a process usually ends it, with an error that also names the
/// step and the replicas that wait. This error can take a second if a replica
/// does not answer. If a process leaves, the run usually ends by itself before
/// that.
constexpr milliseconds end_of_run_delay{300};
/// Time in which the launcher ends a process that does not answer.
constexpr milliseconds launcher_timeout{3000};

} // namespace

member_role::member_role(const membership_context& context,
                         peer_connections& connections, owner& owner)
  : context_{context},
    connections_{connections},
    owner_{owner},
    losses_{context, connections, view_changes_, owner},
    questions_{context.options()} {}

// -- begin --------------------------------------------------------------------

void member_role::begin(const membership::view& first) {
  view_changes_.begin(first, context_.options().self.incarnation);
  // What has happened before this process received `start`.
  for (const auto& x : first.members)
    if (context_.peers().entries[x.task].has_left)
      view_changes_.on_dead(x.incarnation);
  losses_.report_missing(first);
}

void member_role::begin(const view_change::numbered_proposal& decision) {
  view_changes_.begin(decision, context_.options().self.incarnation);
  on_installed(decision.proposal.next);
}

// -- requests of this process -------------------------------------------------

void member_role::on(const membership_event::renewal_wanted& x) {
  if (context_.is_current(x.view_id))
    view_changes_.on_renewal_wanted();
}

void member_role::on(const membership_event::no_lanes& x) {
  if (context_.is_current(x.view_id))
    view_changes_.on_no_lanes(x.incarnation, x.is_newer);
}

void member_role::on(const membership_event::leaving& x) {
  if (context_.is_current(x.view_id))
    for (const auto incarnation : x.incarnations)
      view_changes_.on_leaving(incarnation);
}

// -- the stop of the replicas -------------------------------------------------

bool member_role::stop_replicas() {
  auto& table = context_.peers();
  if (!table.stop.requested)
    context_.log().note({.kind = flight_event_kind::view_change_begun,
                         .text = reason_of_change()});
  bool has_stopped = false;
  std::function<void()> listener;
  table.update([&] {
    auto& stop = table.stop;
    stop.requested = true;
    has_stopped = stop.stopped || !stop.has_group;
    listener = stop.on_requested;
  });
  if (has_stopped)
    return true;
  if (listener)
    listener();
  const membership_event::stop_overdue end{table.view.view_id};
  // If members are lost, or a lane is cut, that ends the run. If members leave,
  // the run in which all have agreed on that is about to end. Otherwise nothing
  // else ends it.
  if (view_changes_.misses_members() || view_changes_.has_leavers()
      || view_changes_.wants_renewal())
    context_.tell_later(end_of_run_delay, end);
  else
    context_.tell(end);
  return false;
}

void member_role::on(const membership_event::replicas_stopped&) {
  auto& table = context_.peers();
  const bool is_awaited =
    table.get([&] { return table.stop.requested && table.stop.stopped; });
  if (is_awaited)
    view_changes_.on_stopped();
}

void member_role::on(const membership_event::stop_overdue& x) {
  auto& table = context_.peers();
  const auto end_run = table.get([&] {
    const auto& stop = table.stop;
    return stop.requested && !stop.stopped && table.view.view_id == x.view_id
             ? stop.end_run
             : std::function<void(const failure_report&)>{};
  });
  if (end_run)
    end_run({.code = ec::peer_lost, .cause = reason_of_change()});
}

std::optional<view_change::job_position> member_role::stopped_position() {
  auto& table = context_.peers();
  return table.get([&] {
    return table.stop.has_group ? table.stop.position
                                : view_change::job_position{};
  });
}

bool member_role::defers_candidates() {
  auto& table = context_.peers();
  return table.get([&] { return table.deferral.active; });
}

std::string member_role::reason_of_change() const {
  return describe(view_changes_.reasons(), losses_.losses(),
                  context_.options().self.task,
                  context_.options().processes.names);
}

// -- views --------------------------------------------------------------------

void member_role::on_installed(const membership::view& next) {
  questions_.withdraw();
  connections_.on_installed(next);
  losses_.forget_former_members(next);
  context_.log().note_installed(next);
  context_.log().info("view " + std::to_string(next.view_id)
                      + " of the job has " + std::to_string(next.members.size())
                      + " of its " + std::to_string(context_.task_count())
                      + " processes");
  report_excluded(next);
  enter(next);
  owner_.on_installed(next);
  losses_.on_installed(next);
  for (const auto& [task, x] : connections_.all())
    if (x.request && !next.contains(task, x.incarnation))
      connections_.send_view(task);
}

/// An excluded process may be stopped. Nothing that it does has an effect.
void member_role::report_excluded(const membership::view& next) const {
  const auto& table = context_.peers();
  for (const auto& x : table.view.members)
    if (!next.contains(x.task, x.incarnation)
        && table.entries[x.task].incarnation == x.incarnation)
      report(x.task);
}

void member_role::enter(const membership::view& next) {
  auto& table = context_.peers();
  table.update([&] {
    table.view = next;
    table.stop.requested = table.no_next_view = false;
    table.streams.forget_before(next.view_id);
    std::erase_if(table.counts,
                  [&](const auto& x) { return x.first.first < next.view_id; });
  });
}

/// The others continue without this process, so its runs have to end.
void member_role::on_removed(const membership::view& next, bool left) {
  context_.log().note(
    {.kind = flight_event_kind::excluded, .view = next.view_id});
  const auto view = "view " + std::to_string(next.view_id) + " of the job";
  const auto line = context_.own_name()
                    + (left ? " has left; " + view + " is without it"
                            : " is excluded from " + view);
  context_.log().info(line);
  auto& table = context_.peers();
  table.update([&] {
    table.view = next;
    table.excluded = true;
    table.has_left = left;
  });
  // One that has left tells the others about the view as long as it runs.
  if (!left)
    owner_.close_all(line);
}

// -- members that do not answer -----------------------------------------------

bool member_role::may_have_ended(std::uint32_t task) {
  return losses_.may_have_ended(task);
}

/// The processes that do not answer may be stopped. If they have a launcher, it
/// ends them, and then they are known to be dead. That helps only those that
/// are half of the members; fewer must not end the others.
void member_role::on_silence(const std::vector<std::uint32_t>& silent_tasks) {
  report_half(silent_tasks);
}

void member_role::on_no_majority(
  const std::vector<std::uint32_t>& silent_tasks) {
  if (losses_.dial_silent_members(silent_tasks))
    return;
  if (report_half(silent_tasks))
    context_.tell_later(
      launcher_timeout,
      membership_event::undecided{context_.peers().view.view_id, silent_tasks});
  else if (!ask_for_survivors(silent_tasks))
    give_up(silent_tasks);
}

/// Reports processes to their launcher, if they are at most half of the
/// members.
/// @returns false if none was reported.
bool member_role::report_half(
  const std::vector<std::uint32_t>& silent_tasks) const {
  if (2 * silent_tasks.size() > context_.peers().view.members.size())
    return false;
  bool is_reported = false;
  for (const auto task : silent_tasks)
    is_reported |= report(task);
  return is_reported;
}

/// Reports a process that does not answer to its launcher.
/// @returns false if it has left or ended, or has no launcher that this process
///          knows.
bool member_role::report(std::uint32_t task) const {
  const auto& launcher = context_.options().launcher;
  const auto& entry = context_.peers().entries[task];
  const auto* const process = losses_.lost_process(entry.incarnation);
  if (!launcher || entry.has_left || !process)
    return false;
  launcher->report_unreachable(process->number());
  return true;
}

/// @returns false if there is no launcher that can know all members.
bool member_role::ask_for_survivors(
  const std::vector<std::uint32_t>& silent_tasks) {
  const auto asked = questions_.ask(
    silent_tasks, context_.now(), [this](const view_change::process_id& x) {
      const bool is_reachable =
        std::as_const(connections_).find(x) || losses_.awaits(x);
      return launcher_questions::known_member{
        connections_.number_of(x.incarnation), is_reachable};
    });
  if (asked)
    context_.tell_later(launcher_questions::answer_interval, *asked);
  return asked.has_value();
}

void member_role::on(const membership_event::survivors_asked& x) {
  auto& table = context_.peers();
  const bool is_awaited = table.get(
    [&] { return table.view.view_id == x.view_id && !table.excluded; });
  if (!is_awaited)
    return;
  using enum launcher_questions::answer;
  switch (questions_.look_for_answer(x, context_.now())) {
    case outdated:
      break;
    case awaited:
      context_.tell_later(launcher_questions::answer_interval, x);
      break;
    case certain:
      view_changes_.on_survivors(x.living);
      break;
    case uncertain:
      give_up_if_silent(x.silent_tasks);
      break;
  }
}

void member_role::on(const membership_event::undecided& x) {
  auto& table = context_.peers();
  const bool is_awaited = table.get(
    [&] { return table.stop.requested && table.view.view_id == x.view_id; });
  if (is_awaited)
    give_up_if_silent(x.silent_tasks);
}

void member_role::give_up_if_silent(const std::vector<std::uint32_t>& tasks) {
  if (are_silent(tasks))
    give_up(tasks);
  else
    view_changes_.await_majority();
}

/// True if there is no connection to the members with these tasks.
bool member_role::are_silent(const std::vector<std::uint32_t>& tasks) const {
  return std::ranges::none_of(tasks, [this](std::uint32_t task) {
    const auto* const member = context_.peers().view.find(task);
    return member
           && std::as_const(connections_).find({task, member->incarnation});
  });
}

void member_role::give_up(const std::vector<std::uint32_t>& silent_tasks) {
  auto& table = context_.peers();
  std::string names;
  for (const auto task : silent_tasks)
    if (!table.entries[task].has_left)
      names += (names.empty() ? "" : ", ") + context_.name_of(task);
  questions_.withdraw();
  context_.log().note({.kind = flight_event_kind::no_majority, .text = names});
  // The launcher is told (`on_job_failure`), counts this process as lost, and
  // may let the others continue. So it must not take part in a later view.
  const bool leaves = context_.options().launcher != nullptr;
  if (leaves)
    view_changes_.end();
  table.update([&] {
    table.no_next_view = true;
    table.has_left |= leaves;
  });
  if (!names.empty())
    context_.log().info(context_.own_name()
                        + " and those it can reach are too few to agree on the "
                          "next view; no answer from: "
                        + names);
  if (leaves)
    owner_.leave_running_job();
}

void member_role::on_state_lost() {
  auto& table = context_.peers();
  table.update([&] { table.no_next_view = true; });
  context_.log().warn("no process that " + context_.own_name()
                      + " can reach has the complete state of the job");
}

// -- the rest of what the view changes need -----------------------------------

void member_role::send(const view_change::process_id& receiver,
                       const view_change::message& what) {
  connections_.send(receiver, what);
}

void member_role::set_view_timer(milliseconds delay, std::uint64_t number) {
  context_.tell_later(delay, atom::wake_v, number);
}

} // namespace troupe
