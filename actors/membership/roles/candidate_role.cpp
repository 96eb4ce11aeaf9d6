#include "troupe/actors/membership/roles/candidate_role.hpp"

#include "troupe/net/session/service_router.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

using std::chrono::milliseconds;

/// Delay before a candidate dials a process again, and interval in which it
/// asks to join.
constexpr milliseconds candidate_interval{100};
/// Time after which a candidate gives up that has lost all its connections.
constexpr milliseconds candidate_reconnect_time{1000};
constexpr milliseconds candidate_dial_timeout{2000};

} // namespace

candidate_role::candidate_role(const membership_context& context,
                               peer_connections& connections,
                               member_role& members)
  : process_role{context, connections, members},
    machine_{context.task_count(), context.options().self} {}

void candidate_role::start() {
  arm_watchdog(options().start_timeout);
  if (options().log)
    log_delay_later();
  if (has_rivals())
    dial(options().known_view.members.front().task);
  else
    dial_all();
}

/// Other candidates may ask for the task of this one.
bool candidate_role::has_rivals() const {
  return options().known_view.view_id > 0;
}

// -- connections --------------------------------------------------------------

void candidate_role::on(const membership_event::accepted& x) {
  x.connection->close("the job has begun");
}

void candidate_role::dial_all() {
  for (std::uint32_t task = 0; task < context().task_count(); ++task)
    if (task != options().self.task)
      dial(task);
}

/// Dials a process alternately at its address in the last view and at the
/// address of its task in the cluster. A process that was a spare has another
/// address than its task.
void candidate_role::dial(std::uint32_t task) {
  if (connections().contains(task))
    return;
  const auto& view =
    machine_.view().view_id > 0 ? machine_.view() : options().known_view;
  const auto* member = view.find(task);
  if (member && !dialed_by_view_.insert(task).second) {
    dialed_by_view_.erase(task);
    member = nullptr;
  }
  try {
    options().dial_to_join(
      task, member, candidate_dial_timeout,
      context().on_dialed(membership_event::dialed{task, {}}));
  } catch (const std::invalid_argument& e) { // a member sent the address
    last_failure_ = context().name_of(task) + ": " + e.what();
    dial_later(task);
  }
}

void candidate_role::dial_later(std::uint32_t task) {
  context().tell_later(candidate_interval, atom::next_v, task);
}

/// A candidate connects to all processes of the job. Those that it does not
/// reach may have ended.
void candidate_role::on(const membership_event::dialed& x) {
  const auto task = x.task;
  auto& attempt = *x.result;
  auto* const connection = connection_of(attempt);
  if (connection && !connections().contains(task)) {
    const auto incarnation = attempt.peer.incarnation;
    add_peer({task, incarnation}, std::move(*connection));
    return machine_.on_connected(task, incarnation);
  }
  if (connection)
    return (*connection)->close("the process has joined");
  last_failure_ = context().name_of(task) + ": " + attempt.reason;
  if (attempt.rejected && !is_retryable(attempt.payload))
    note_refusal(task);
  if (has_rivals() && !is_first_accepted_)
    give_way();
  else
    dial_later(task);
}

void candidate_role::on_closed(const peer_connections::ended_connection& ended,
                               const membership_event::closed& x) {
  const auto task = ended.process.task;
  last_failure_ = context().name_of(task) + ": " + x.reason;
  if (ended.was_closed)
    note_refusal(task);
  machine_.on_lost(task);
  if (has_rivals() && !machine_.knows_job())
    return give_way();
  if (connections().size() == 0 && machine_.knows_job()
      && !std::exchange(awaits_connections_, true))
    context().tell_later(candidate_reconnect_time,
                         membership_event::connections_overdue{});
  dial_later(task);
}

/// A process that dials again may reach the job: its connections were cut.
void candidate_role::on_connections_overdue() {
  awaits_connections_ = false;
  if (connections().size() > 0 || !machine_.knows_job())
    return;
  peers().update([&] {
    peers().failed = {
      .code = ec::peer_lost,
      .cause = "the connections to all its processes have ended, the last to "
               + last_failure_};
  });
}

/// The candidate has not become a process of the job, so another one may.
void candidate_role::give_way() {
  peers().update(
    [&] { peers().failed = {.code = ec::busy, .cause = last_failure_}; });
}

/// A process of the job does not accept this candidate. A later attempt that
/// does not reach the process says less.
void candidate_role::note_refusal(std::uint32_t task) {
  if (refusals_.insert_or_assign(task, last_failure_).second)
    context().log().info(context().own_name()
                         + " cannot join yet: " + last_failure_);
}

/// Returns why a process of the job does not accept this candidate. Empty: no
/// process has said so.
std::string candidate_role::refusal() const {
  return refusals_.empty() ? std::string{} : refusals_.begin()->second;
}

void candidate_role::log_delay() {
  if (!machine_.knows_job() && !refusals_.empty())
    context().log().warn(
      context().own_name() + " cannot join yet, and tries again for at most "
      + std::to_string(context().remaining().count()) + " ms: " + refusal());
}

// -- the protocol -------------------------------------------------------------

void candidate_role::on(const process_id& sender,
                        const membership::message& received) {
  refusals_.erase(sender.task);
  perform(machine_.on(sender.task, received));
  if (has_rivals() && machine_.view().view_id > 0
      && !std::exchange(is_first_accepted_, true))
    dial_all();
}

void candidate_role::on_view(membership::view&& first) {
  take_view(std::move(first));
}

/// The group has timeouts of its own.
void candidate_role::on_started() {
  disarm_watchdog();
}

void candidate_role::on_timeout() {
  perform(machine_.on_timeout(last_failure_, refusal()));
}

void candidate_role::ask() {
  context().log().note({.kind = flight_event_kind::view_change_begun,
                        .text = "this process asks to join"});
  perform(machine_.ask());
  context().tell_later(candidate_interval, atom::next_v);
}

void candidate_role::repeat_ask() {
  perform(machine_.repeat());
  context().tell_later(candidate_interval, atom::next_v);
}

bool candidate_role::joins_with(const process_id& sender,
                                const view_change::message& received) {
  if (received.kind != view_change::message_kind::install) {
    // This process may be a member of the sender's view.
    view_change::message inquiry;
    inquiry.kind = view_change::message_kind::inquire;
    connections().send(sender, inquiry);
    return false;
  }
  return received.proposals.size() == 1
         && machine_.can_enter(received.proposals.front().proposal.next);
}

void candidate_role::leave(bool) {
  perform(machine_.leave());
}

} // namespace troupe
