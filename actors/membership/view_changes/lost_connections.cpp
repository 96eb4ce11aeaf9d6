#include "troupe/actors/membership/view_changes/lost_connections.hpp"

#include "troupe/actors/core/close_code.hpp"

#include <algorithm>

namespace troupe {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Interval and number of the checks whether a process of this host has ended,
/// after the connection to it has ended.
constexpr milliseconds end_check_interval{10};
constexpr std::uint32_t end_checks = 500;
/// Number of the first of these checks that follow each other sooner.
constexpr std::uint32_t early_checks = 20;
constexpr milliseconds early_check_interval{1};
/// Number of the first of these checks during which no lack of a majority is
/// reported.
constexpr std::uint32_t decisive_checks = 50;

} // namespace

lost_connections::lost_connections(const membership_context& context,
                                   peer_connections& connections,
                                   view_change_host& view_changes, owner& owner)
  : context_{context},
    connections_{connections},
    view_changes_{view_changes},
    owner_{owner} {
  reconnector::owner& self = *this;
  if (context_.options().dial_again)
    reconnects_.emplace(self, context_.options());
}

// -- ends of connections ------------------------------------------------------

void lost_connections::on_closed(
  const peer_connections::ended_connection& ended,
  const membership_event::closed& x) {
  const auto& [process, was_closed, handle, request] = ended;
  const auto incarnation = process.incarnation;
  const auto code = close_code(x.cause);
  const bool was_silent = x.cause == net::close_reason::timed_out;
  if (handle) {
    // Before the members change their view, which asks for both. A process
    // that was silent for the heartbeat timeout is not ending.
    processes_[incarnation] = handle;
    if (code != ec::unreachable)
      ending_.insert(incarnation);
  }
  // One that is silent for the heartbeat timeout is not dialed again.
  const bool was_cut = !was_closed && !was_silent && is_member(process);
  const cut_connection how{code, x.reason, {}, handle, request};
  if (was_cut && reconnects_ && !(handle && handle->has_ended()))
    reconnects_->on_cut(process, how);
  else
    give_up(process, how, was_silent);
  if (handle)
    on(membership_event::end_check{
      incarnation, handle,
      code == ec::unreachable ? end_checks - decisive_checks : end_checks,
      process.task});
}

/// The connection to a process has ended for good.
/// @param was_silent true: nothing was received for the heartbeat timeout.
void lost_connections::give_up(const process_id& process,
                               const cut_connection& how, bool was_silent) {
  // A connection that was cut has been dialed for the heartbeat timeout.
  if (was_silent && is_member(process))
    silent_.insert_or_assign(process.incarnation, how);
  owner_.on_lost(process, how);
  view_changes_.on_lost(process.incarnation, was_silent);
}

/// The kernel closes the connection shortly before the process has ended.
void lost_connections::on(const membership_event::end_check& x) {
  if (!processes_.contains(x.incarnation))
    return; // they are connected again
  const bool has_ended = x.process->has_ended();
  if (has_ended || x.further_checks + decisive_checks <= end_checks)
    ending_.erase(x.incarnation);
  else
    ending_.insert(x.incarnation);
  if (has_ended) {
    context_.log().note_dead(x.incarnation);
    processes_.erase(x.incarnation);
    const process_id process{x.task, x.incarnation};
    const auto cut = reconnects_ ? reconnects_->stop(process) : std::nullopt;
    if (cut)
      give_up(process, *cut);
    silent_.erase(x.incarnation);
    view_changes_.on_dead(x.incarnation);
  }
  const bool is_early = x.further_checks + early_checks > end_checks;
  if (!has_ended && x.further_checks > 0)
    context_.tell_later(is_early ? early_check_interval : end_check_interval,
                        membership_event::end_check{x.incarnation, x.process,
                                                    x.further_checks - 1,
                                                    x.task});
}

// -- connections that are made again ------------------------------------------

void lost_connections::on(const membership_event::accepted_again& x) {
  const auto& [task, incarnation] = x.process;
  auto& table = context_.peers();
  if (!view_changes_.has_begun())
    return x.connection->close("the job has not begun in this process");
  if (table.get([&] { return table.excluded; }))
    return x.connection->close(context_.own_name()
                               + " does not belong to the job");
  if (!is_member(x.process))
    return refuse_former_member(x);
  auto before = reconnects_ ? reconnects_->stop(x.process) : std::nullopt;
  if (const auto* const open = connections_.find(x.process); open && !before)
    before = {ec::peer_lost, {}, {}, open->process, open->request};
  // It was silent, and dials because too few processes answer it.
  if (const auto lost = silent_.find(incarnation);
      lost != silent_.end() && !before)
    before = lost->second;
  if (!before)
    return x.connection->close(context_.own_name()
                               + " has given up the connection to "
                               + context_.name_of(task));
  on_reconnected(x.process, x.connection, *before);
}

/// Tells a process that it is not a member of the current view, so that it ends
/// its runs.
void lost_connections::refuse_former_member(
  const membership_event::accepted_again& x) {
  if (!connections_.contains(x.process.task)) {
    connections_.add(x.process, x.connection);
    view_change::message inquiry;
    inquiry.kind = view_change::message_kind::inquire;
    view_changes_.on(x.process, inquiry); // answered with `install`
  }
  x.connection->close(
    context_.name_of(x.process.task) + " is not a member of view "
    + std::to_string(context_.peers().view.view_id) + " of the job");
}

void lost_connections::on_reconnected(
  const process_id& process, std::shared_ptr<net::connection> connection,
  const cut_connection& before) {
  const auto incarnation = process.incarnation;
  processes_.erase(incarnation);
  silent_.erase(incarnation);
  dialed_.erase(incarnation);
  ending_.erase(incarnation);
  auto& made = connections_.add(process, std::move(connection));
  made.request = before.request;
  if (before.process)
    made.process = before.process;
  context_.log().info(context_.own_name() + " is connected to "
                      + context_.name_of(process.task) + " again"
                      + (before.reason.empty() ? "" : ": " + before.reason));
  owner_.on_reconnected(process);
  // It may be lost again before the members have agreed on a view.
  view_changes_.await_majority();
  view_changes_.on_reachable(incarnation);
}

void lost_connections::on_not_reconnected(const process_id& process,
                                          const cut_connection& before) {
  context_.log().info(
    context_.own_name() + " could not connect to "
    + context_.name_of(process.task) + " again"
    + (before.dial_failure.empty() ? "" : ": " + before.dial_failure));
  if (dialed_.contains(process.incarnation))
    view_changes_.await_majority(); // which is reported once more
  else
    give_up(process, before);
}

bool lost_connections::dial_silent_members(
  const std::vector<std::uint32_t>& tasks) {
  bool is_any_dialed = false;
  for (const auto task : tasks) {
    const auto* const member = context_.peers().view.find(task);
    const auto lost =
      member ? silent_.find(member->incarnation) : silent_.end();
    if (!reconnects_ || lost == silent_.end()
        || context_.peers().entries[task].has_left
        || view_changes_.is_dead(member->incarnation)
        || !dialed_.insert(member->incarnation).second)
      continue;
    reconnects_->dial({task, member->incarnation}, lost->second);
    is_any_dialed = true;
  }
  return is_any_dialed;
}

void lost_connections::report_missing(const membership::view& view) {
  for (const auto& x : view.members) {
    const process_id process{x.task, x.incarnation};
    if (x.task == context_.options().self.task || connections_.find(process)
        || awaits(process))
      continue;
    if (reconnects_ && is_member(process) && !processes_.contains(x.incarnation)
        && !view_changes_.is_dead(x.incarnation))
      reconnects_->on_cut(process, {});
    else
      view_changes_.on_lost(x.incarnation);
  }
}

void lost_connections::pass_later(milliseconds delay,
                                  const membership_event::dial_again& event) {
  if (delay > 0ms)
    context_.tell_later(delay, event);
  else
    context_.tell(event);
}

void lost_connections::pass_later(
  milliseconds delay, const membership_event::not_reconnected& event) {
  context_.tell_later(delay, event);
}

membership_options::dial_callback
lost_connections::dial_callback(const process_id& process) {
  return context_.on_dialed(membership_event::dialed_again{process, {}});
}

milliseconds lost_connections::time() const {
  return std::chrono::duration_cast<milliseconds>(context_.now());
}

// -- views --------------------------------------------------------------------

void lost_connections::forget_former_members(const membership::view& next) {
  const auto is_no_member = [&](std::uint64_t incarnation) {
    return std::ranges::find(next.members, incarnation,
                             &membership::member::incarnation)
           == next.members.end();
  };
  std::erase_if(silent_, [&](const auto& x) { return is_no_member(x.first); });
  std::erase_if(dialed_, is_no_member);
}

void lost_connections::on_installed(const membership::view& next) {
  if (reconnects_)
    reconnects_->on_installed(next);
  report_missing(next);
}

// -- queries ------------------------------------------------------------------

bool lost_connections::is_member(const process_id& process) const {
  auto& table = context_.peers();
  return view_changes_.has_begun() && table.get([&] {
    return !table.excluded && !table.entries[process.task].has_left
           && table.view.contains(process.task, process.incarnation);
  });
}

bool lost_connections::may_have_ended(std::uint32_t task) const {
  return ending_.contains(context_.peers().entries[task].incarnation);
}

const net::process_handle*
lost_connections::lost_process(std::uint64_t incarnation) const {
  const auto it = processes_.find(incarnation);
  return it == processes_.end() ? nullptr : it->second.get();
}

std::map<std::uint32_t, std::string> lost_connections::losses() const {
  std::map<std::uint32_t, std::string> out;
  const auto& causes = connections_.causes_of_loss();
  for (const auto& x : context_.peers().view.members) {
    const auto lost = causes.find(x.incarnation);
    if (lost == causes.end())
      continue;
    const process_id process{x.task, x.incarnation};
    out[x.task] =
      (connections_.find(process) || awaits(process) ? "was disconnected: "
                                                     : "was lost: ")
      + lost->second;
  }
  return out;
}

} // namespace troupe
