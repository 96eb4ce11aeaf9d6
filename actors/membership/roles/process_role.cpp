#include "troupe/actors/membership/roles/process_role.hpp"

#include "troupe/net/base/text.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace troupe {

namespace {

using std::chrono::milliseconds;

/// Maximum delay before the leader logs which tasks are missing.
constexpr milliseconds max_report_delay{5000};

} // namespace

process_role::process_role(const membership_context& context,
                           peer_connections& connections, member_role& members)
  : context_{context}, connections_{connections}, members_{members} {}

// -- connections --------------------------------------------------------------

void process_role::add_peer(const process_id& process,
                            std::shared_ptr<net::connection> connection) {
  connections_.add(process, std::move(connection));
  report_if_ready();
}

void process_role::on_peer_lost(const membership_event::peer_lost& x) {
  if (!members_.has_begun() && !connections_.contains(x.task))
    abort(x.code, "the connection between " + context_.own_name() + " and "
                    + context_.name_of(x.task) + " ended: " + x.reason);
}

void process_role::note_lanes_open() {
  lanes_open_ = true;
  report_if_ready();
}

/// This process is ready when its lanes are open and it is connected to all
/// others.
void process_role::report_if_ready() {
  if (lanes_open_ && connections_.size() + 1 == context_.task_count())
    perform(on_ready());
}

// -- timeouts -----------------------------------------------------------------

void process_role::arm_watchdog(milliseconds delay) {
  context_.tell_later(delay, atom::watchdog_v, ++watchdog_);
}

void process_role::on_watchdog(std::uint64_t number) {
  if (number == watchdog_)
    on_timeout();
}

void process_role::log_delay_later() {
  context_.tell_later(std::min(max_report_delay, options().start_timeout / 4),
                      atom::missing_v);
}

// -- decisions ----------------------------------------------------------------

void process_role::perform(membership::reaction&& effects) {
  for (auto& x : effects)
    std::visit([this](auto& effect) { perform(effect); }, x);
}

void process_role::perform(membership::send& x) {
  connections_.send(x.task, x.message);
}

void process_role::perform(membership::view_changed& x) {
  on_view(std::move(x.view));
}

void process_role::take_view(membership::view&& first) {
  peers().update([&] { peers().view = std::move(first); });
}

void process_role::perform(membership::started&) {
  context_.tell_later(packet_reporter::interval,
                      membership_event::packet_reports_due{});
  context_.log().note_installed(peers().view);
  on_started();
  peers().update([this] { peers().started = true; });
}

void process_role::perform(membership::failed& x) {
  auto& why = x.why;
  why.timeout_ms = static_cast<std::uint64_t>(options().start_timeout.count());
  const auto text =
    net::printable(describe(why, options().processes), net::max_sentence_bytes);
  for (const auto task : x.notify)
    connections_.send(task, {membership::message_kind::abort, text, {}});
  on_start_failed(text);
  peers().update([&] { peers().failed = std::move(why); });
}

void process_role::perform(membership::left& x) {
  peers().update([&] { peers().entries[x.task].has_left = true; });
  if (const auto* const peer = connections_.find(x.task))
    members_.on_dead(peer->incarnation);
}

void process_role::perform(membership::job_ends&) {
  members_.end();
  peers().update([this] { peers().no_next_view = true; });
}

void process_role::perform(membership::ended&) {
  peers().update([this] { peers().may_close = true; });
}

} // namespace troupe
