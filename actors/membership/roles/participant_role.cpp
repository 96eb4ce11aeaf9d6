#include "troupe/actors/membership/roles/participant_role.hpp"

#include "troupe/actors/core/close_code.hpp"
#include "troupe/net/session/service_router.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Delay before a participant dials a process again. It dials again if that
/// process does not serve the job yet.
constexpr milliseconds retry_delay{20};
/// Time before a participant reports that the connection to another one has
/// ended before the start.
constexpr milliseconds peer_loss_delay{500};

} // namespace

participant_role::participant_role(const membership_context& context,
                                   peer_connections& connections,
                                   member_role& members)
  : process_role{context, connections, members},
    machine_{context.task_count(), context.options().self} {}

participant_role::participant_role(const membership_context& context,
                                   peer_connections& connections,
                                   member_role& members,
                                   const membership::view& joined,
                                   std::optional<std::uint64_t> leader)
  : process_role{context, connections, members},
    machine_{context.task_count(), context.options().self, joined, leader} {}

participant_role::~participant_role() {
  close_early("the job has ended");
}

// -- dials --------------------------------------------------------------------

void participant_role::start() {
  arm_watchdog(options().start_timeout + lane_timeout);
  dial(0);
}

void participant_role::dial(std::uint32_t task) {
  if (options().joins)
    return; // a process that has joined dials no more
  auto on_done = context().on_dialed(membership_event::dialed{task, {}});
  if (task == 0)
    return options().dial_leader(std::max(context().remaining(), 1ms),
                                 std::move(on_done));
  try {
    options().dial_peer(
      machine_.view().members[task],
      std::max(context().remaining(), options().start_timeout / 2),
      std::move(on_done));
  } catch (const std::invalid_argument& e) { // the leader sent the address
    abort(ec::protocol, "the address of " + context().name_of(task)
                          + " cannot be used: " + e.what());
  }
}

void participant_role::on(const membership_event::dialed& x) {
  if (options().joins) {
    if (const auto* const connection = connection_of(*x.result))
      (*connection)->close("the process has joined");
  } else if (x.task > 0) {
    on_peer_dialed(x.task, *x.result);
  } else {
    on_leader_dialed(*x.result);
  }
}

void participant_role::on_leader_dialed(net::endpoint::dial_result& attempt) {
  if (auto* const connection = connection_of(attempt)) {
    const auto incarnation = attempt.peer.incarnation;
    add_peer({0, incarnation}, std::move(*connection));
    arm_watchdog(context().remaining() + options().start_timeout
                 + options().shutdown_timeout);
    return perform(machine_.on_connected(incarnation));
  }
  const bool retry = attempt.rejected && is_retryable(attempt.payload)
                     && context().remaining() > retry_delay;
  if (attempt.rejected)
    last_rejection_ = attempt.reason;
  if (retry)
    context().tell_later(retry_delay, atom::next_v, std::uint32_t{0});
  else if (!last_rejection_.empty()) // explains more than a timeout
    perform(machine_.on_rejected(last_rejection_));
  else
    perform(machine_.on_unreachable(
      attempt.permanent ? ec::refused : ec::stalled, attempt.reason));
}

void participant_role::on_peer_dialed(std::uint32_t task,
                                      net::endpoint::dial_result& attempt) {
  const auto& name = context().name_of(task);
  auto* const connection = connection_of(attempt);
  const auto incarnation = attempt.peer.incarnation;
  if (connection && machine_.view().contains(task, incarnation))
    return add_peer({task, incarnation}, std::move(*connection));
  if (connection) {
    (*connection)->close("it is another process than that of the view");
    abort(ec::stalled, "another process has taken the place of " + name);
  } else if (attempt.rejected && is_retryable(attempt.payload)
             && context().now() + retry_delay < peer_deadline_) {
    context().tell_later(retry_delay, atom::next_v, task);
  } else {
    abort(ec::stalled, context().own_name() + " could not connect to " + name
                         + ": " + attempt.reason);
  }
}

// -- accepted connections -----------------------------------------------------

/// A participant with a higher task has connected, perhaps before this one
/// knows the view. If it connects again before the start, it has given up its
/// first connection.
void participant_role::on(const membership_event::accepted& x) {
  const auto& [connection, request] = x;
  const auto& view = machine_.view();
  const auto task_count = context().task_count();
  if (options().joins)
    return connection->close("the job has begun");
  if (request.task <= options().self.task || request.task >= task_count)
    return connection->close("a process with a higher task number dials");
  if (members().has_begun())
    return connection->close("the job has begun");
  if (view.view_id == 0) {
    if (early_.size() >= 4 * task_count)
      return connection->close("too many processes connect before the start");
    return early_.push_back(x);
  }
  if (!view.contains(request.task, request.incarnation))
    return connection->close("another process is the admitted "
                             + context().name_of(request.task));
  add_peer({request.task, request.incarnation}, connection);
}

void participant_role::close_early(const std::string& reason) {
  for (const auto& x : std::exchange(early_, {}))
    x.connection->close(reason);
}

// -- the start ----------------------------------------------------------------

void participant_role::on(const membership_event::lanes_open&) {
  arm_watchdog(std::max(context().remaining(), options().start_timeout / 2)
               + options().start_timeout + lane_timeout);
  note_lanes_open();
}

/// Each participant dials those with a lower task.
void participant_role::on_view(membership::view&& first) {
  take_view(std::move(first));
  peer_deadline_ =
    context().now()
    + std::max(context().remaining(), options().start_timeout / 2);
  for (std::uint32_t task = 1; task < options().self.task; ++task)
    dial(task);
  for (const auto& x : std::exchange(early_, {}))
    on(x);
}

void participant_role::on_started() {
  members().begin(machine_.view());
}

void participant_role::on_start_failed(const std::string& text) {
  close_early(text);
}

void participant_role::abort(ec code, const std::string& reason) {
  perform(machine_.on_abort(code, reason));
}

void participant_role::on_timeout() {
  perform(machine_.on_timeout());
}

/// The leader may say more: that the process has ended, or why the job does not
/// begin.
void participant_role::on_closed(
  const peer_connections::ended_connection& ended,
  const membership_event::closed& x) {
  if (ended.process.task > 0 && !members().has_begun())
    context().tell_later(
      peer_loss_delay,
      membership_event::peer_lost{x.task, close_code(x.cause), x.reason});
}

// -- the job ------------------------------------------------------------------

void participant_role::on(const process_id& sender,
                          const membership::message& received) {
  perform(machine_.on(sender.incarnation, received));
}

void participant_role::on_lost(const process_id& process,
                               const lost_connections::cut_connection& how) {
  perform(machine_.on_lost(process.incarnation, how.code, how.reason));
}

void participant_role::on_reconnected(const process_id& process) {
  perform(machine_.on_reconnected(process.task, process.incarnation));
}

void participant_role::on_installed(const membership::view& next) {
  machine_.on_installed(next);
}

void participant_role::leave(bool) {
  perform(machine_.leave());
}

} // namespace troupe
