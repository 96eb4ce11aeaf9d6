#include "troupe/actors/membership/peers/reconnector.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

namespace troupe {

namespace {

using namespace std::chrono_literals;

/// Maximum time of an attempt to dial, as a part of the time in which the
/// connection must be made.
constexpr int attempts_per_timeout = 4;

} // namespace

reconnector::reconnector(owner& owner, const membership_options& options)
  : owner_{owner},
    options_{options},
    machine_{options.self.task, options.reconnect_timeout,
             options.self.incarnation} {}

void reconnector::on_cut(const process_id& process, cut_connection how) {
  cuts_[process] = std::move(how);
  perform(machine_.on_cut(process, owner_.time()));
}

void reconnector::dial(const process_id& process, cut_connection how) {
  cuts_[process] = std::move(how);
  perform(machine_.on_needed(process));
}

bool reconnector::awaits_task(std::uint32_t task) const {
  return machine_.awaits_task(task);
}

std::optional<reconnector::cut_connection>
reconnector::stop(const process_id& process) {
  machine_.stop(process);
  auto found = cuts_.extract(process);
  return found ? std::optional{std::move(found.mapped())} : std::nullopt;
}

void reconnector::on_installed(const membership::view& current) {
  perform(machine_.on_installed(current));
}

void reconnector::on(const membership_event::dial_again& x) {
  if (!awaits(x.process))
    return;
  const auto view =
    options_.peers->get([this] { return options_.peers->view; });
  const auto* const peer = view.find(x.process.task);
  if (!peer || peer->incarnation != x.process.incarnation)
    return;
  try {
    options_.dial_again(
      *peer, std::max(options_.reconnect_timeout / attempts_per_timeout, 50ms),
      owner_.dial_callback(x.process));
  } catch (const std::invalid_argument&) { // a peer has sent the address
    perform(machine_.on_dial_failed(x.process, true));
  }
}

void reconnector::on(const membership_event::dialed_again& x) {
  auto& attempt = *x.result;
  auto* const connection =
    attempt.connection
      ? std::get_if<std::shared_ptr<net::connection>>(&*attempt.connection)
      : nullptr;
  if (connection && attempt.peer.incarnation == x.process.incarnation) {
    if (const auto before = stop(x.process))
      owner_.on_reconnected(x.process, std::move(*connection), *before);
    else
      (*connection)->close("the connection is not awaited any more");
    return;
  }
  if (connection)
    (*connection)->close("it is another process than that of the view");
  else if (const auto it = cuts_.find(x.process); it != cuts_.end())
    it->second.dial_failure = attempt.reason;
  // A process that was started in its place has answered.
  const bool is_replaced = attempt.peer.incarnation != 0
                           && attempt.peer.incarnation != x.process.incarnation;
  perform(
    machine_.on_dial_failed(x.process, connection != nullptr || is_replaced));
}

void reconnector::on(const membership_event::not_reconnected& x) {
  perform(machine_.on_timeout(x.process, x.number));
}

// -- effects ------------------------------------------------------------------

void reconnector::perform(const reconnection::reaction& effects) {
  for (const auto& one : effects)
    std::visit([this](const auto& x) { perform(x); }, one);
}

void reconnector::perform(const reconnection::dial& x) {
  owner_.pass_later(x.delay, membership_event::dial_again{x.process});
}

void reconnector::perform(const reconnection::set_timer& x) {
  owner_.pass_later(x.delay,
                    membership_event::not_reconnected{x.process, x.number});
}

void reconnector::perform(const reconnection::lost& x) {
  if (const auto before = stop(x.process))
    owner_.on_not_reconnected(x.process, *before);
}

} // namespace troupe
