#include "troupe/actors/membership/roles/leader_role.hpp"

#include "troupe/actors/group/world.hpp"
#include "troupe/actors/membership/roles/rejection_text.hpp"
#include "troupe/net/base/text.hpp"

#include <utility>
#include <variant>

namespace troupe {

leader_role::leader_role(const membership_context& context,
                         peer_connections& connections, member_role& members)
  : process_role{context, connections, members},
    machine_{context.task_count(), context.options().self} {}

// -- the start ----------------------------------------------------------------

void leader_role::start() {
  arm_watchdog(options().start_timeout);
  log_delay_later();
  perform(machine_.begin());
}

void leader_role::on(const membership_event::accepted& x) {
  auto effects = machine_.on(x.request);
  if (const auto* no = std::get_if<membership::rejected>(&effects.front()))
    return reject(*x.connection, no->why);
  add_peer({x.request.task, x.request.incarnation}, x.connection);
  perform(std::move(effects));
}

/// Tells a process that it cannot join, and ends its connection.
void leader_role::reject(net::connection& connection,
                         const membership::rejection& why) {
  const auto reason = net::printable(describe(why, options().processes.names),
                                     net::max_sentence_bytes);
  peer_connections::post(*connection.open(membership_channel), 1,
                         {membership::message_kind::reject, reason, {}});
  connection.close(reason);
  if (why.task < context().task_count())
    rejections_[why.task] = reason;
  context().log().warn(context().own_name() + " rejected a process: " + reason);
}

void leader_role::on(const membership_event::lanes_open&) {
  note_lanes_open();
}

void leader_role::on_view(membership::view&& first) {
  arm_watchdog(context().remaining() + lane_timeout);
  take_view(std::move(first));
}

void leader_role::on_started() {
  members().begin(machine_.view());
}

void leader_role::abort(ec code, const std::string& reason) {
  perform(machine_.on_abort(code, reason));
}

void leader_role::on_timeout() {
  auto effects = machine_.on_timeout();
  for (auto& x : effects)
    if (auto* const failed = std::get_if<membership::failed>(&x);
        failed && failed->why.kind == failure_kind::start_not_joined)
      failed->why.cause = rejected_text();
  perform(std::move(effects));
}

void leader_role::log_delay() {
  const auto tasks = machine_.missing();
  if (machine_.is_gathering() && !tasks.empty() && options().log)
    context().log().warn(describe({.kind = failure_kind::start_not_joined,
                                   .code = ec::stalled,
                                   .processes = tasks,
                                   .cause = rejected_text()},
                                  options().processes));
}

/// Returns a text about the processes and connections that were rejected.
std::string leader_role::rejected_text() const {
  std::string out;
  for (const auto task : machine_.missing())
    if (const auto it = rejections_.find(task); it != rejections_.end())
      out += "; rejected: " + it->second;
  if (out.empty() && options().describe_rejected_peers)
    out = options().describe_rejected_peers();
  return out + peers().get([this] { return peers().unknown_hosts; });
}

// -- the job ------------------------------------------------------------------

void leader_role::on(const process_id& sender,
                     const membership::message& received) {
  perform(machine_.on(sender.task, sender.incarnation, received));
}

void leader_role::on_lost(const process_id& process,
                          const lost_connections::cut_connection& how) {
  perform(
    machine_.on_lost(process.task, process.incarnation, how.code, how.reason));
}

void leader_role::on_reconnected(const process_id& process) {
  perform(machine_.on_reconnected(process.task));
}

void leader_role::on_installed(const membership::view& next) {
  machine_.on_installed(next);
}

void leader_role::leave(bool job_goes_on) {
  perform(job_goes_on ? machine_.leave_running_job() : machine_.leave());
}

} // namespace troupe
